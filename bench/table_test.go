package main

import (
	"strings"
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1500: "1.50 µs", 25 * time.Millisecond: "25.0 ms", 1234 * time.Millisecond: "1.23 s", 345 * time.Second: "345 s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d ns is %q, want %q", d, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	samples := []time.Duration{5, 1, 4, 2, 3}
	for part, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(samples, part); got != want {
			t.Errorf("at %g: %d, want %d", part, got, want)
		}
	}
	if got := median(nil); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestTable(t *testing.T) {
	var tab table
	tab.times("within", 3*time.Second, 2*time.Second, "floor", 1.5)
	tab.atMost("without a bar", "%.0f", 7, 0)
	if tab.failed() {
		t.Error("nothing is above its bar")
	}
	tab.atMost("above", "%.1f MB", 40, 32)
	if !tab.failed() {
		t.Error("a figure is above its bar")
	}
	want := `| what | measured | floor | ratio | bar | |
| --- | --- | --- | --- | --- | --- |
| within | 3.00 s | 2.00 s floor | 1.50 | 1.5 times | pass |
| without a bar | 7 |  |  |  |  |
| above | 40.0 MB |  |  | 32.0 MB | FAIL |
`
	if got := string(tab.markdown()); got != want {
		t.Errorf("got\n%s", got)
	}
	var text strings.Builder
	tab.text(&text)
	if got := strings.Count(text.String(), "\n"); got != 4 {
		t.Errorf("%d lines of text", got)
	}
}
