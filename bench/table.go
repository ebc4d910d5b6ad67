package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// figure is one line of the table.
type figure struct {
	What, Value string
	Floor       string // what was measured beside it; empty for none
	Ratio       string
	Bar         string
	Verdict     string // pass or FAIL; empty where there is no bar
}

// table collects the figures.
type table struct{ rows []figure }

const (
	pass = "pass"
	fail = "FAIL"
)

func verdict(good bool) string {
	if good {
		return pass
	}
	return fail
}

// times adds a figure that may be at most bar times its floor; 0 means that there is no bar.
func (t *table) times(what string, value, floor time.Duration, floorName string, bar float64) {
	f := figure{What: what, Value: short(value), Floor: short(floor) + " " + floorName}
	if floor > 0 {
		ratio := float64(value) / float64(floor)
		f.Ratio = fmt.Sprintf("%.2f", ratio)
		if bar > 0 {
			f.Bar, f.Verdict = fmt.Sprintf("%g times", bar), verdict(ratio <= bar)
		}
	}
	t.rows = append(t.rows, f)
}

// atMost adds a figure that may be at most bar, both in the unit of the format.
func (t *table) atMost(what, format string, value, bar float64) {
	f := figure{What: what, Value: fmt.Sprintf(format, value)}
	if bar > 0 {
		f.Bar, f.Verdict = fmt.Sprintf(format, bar), verdict(value <= bar)
	}
	t.rows = append(t.rows, f)
}

func (t *table) add(f figure) { t.rows = append(t.rows, f) }

func (t *table) failed() bool {
	for _, f := range t.rows {
		if f.Verdict == fail {
			return true
		}
	}
	return false
}

func (t *table) text(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tmeasured\tfloor\tratio\tbar\t")
	for _, f := range t.rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", f.What, f.Value, f.Floor, f.Ratio, f.Bar, f.Verdict)
	}
	_ = tw.Flush() // a standard output that is gone has nobody to be told
}

func (t *table) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "| what | measured | floor | ratio | bar | |\n| --- | --- | --- | --- | --- | --- |")
	for _, f := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", f.What, f.Value, f.Floor, f.Ratio, f.Bar, f.Verdict)
	}
	return b.Bytes()
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= unit.size {
			v := float64(d) / float64(unit.size)
			switch {
			case v >= 100:
				return fmt.Sprintf("%.0f %s", v, unit.name)
			case v >= 10:
				return fmt.Sprintf("%.1f %s", v, unit.name)
			}
			return fmt.Sprintf("%.2f %s", v, unit.name)
		}
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}
