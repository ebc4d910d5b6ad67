package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/lifetime"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

func doctorCommand(std streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor", Short: "Look at everything a bridge depends on, and say what helps",
		Long: "Looks at the environment, the host, what a new task would run on, the bridge's folder and what is in it, and the other bridge processes.\n" +
			"It changes nothing. Exit code 1 when something does not work.",
		Example: "  dsh-agentlink doctor\n  dsh-agentlink doctor --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := lifetime.Context(context.Background())
			defer stop()
			s := newScreen(std.out, asJSON)
			report := operator.Doctor(ctx, operator.DoctorOptions{Getenv: os.Getenv, Version: version() + commit()})
			var problem error
			if report.Errors > 0 {
				problem = fmt.Errorf("the doctor found %s", plural(report.Errors, "error"))
			}
			return unread(s.show(report, func() { showReport(s, report) }, problem))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// marks are how the levels of findings look.
var marks = map[operator.Level]cell{
	operator.OK:      {"ok", words.Good},
	operator.Note:    {"note", words.Faint},
	operator.Warning: {"warning", words.Careful},
	operator.Bad:     {"ERROR", words.Bad},
}

func showReport(s *screen, r operator.Report) {
	s.line("dsh-agentlink %s", r.Version)
	const areaWidth, levelWidth = 11, 7 // of the longest words there are
	last := ""
	for _, f := range r.Findings {
		area := f.Area
		if area == last {
			area = ""
		}
		last = f.Area
		mark := marks[f.Level]
		first := true
		for _, line := range words.Lines(f.Text) {
			if first {
				s.line("%s  %s  %s", s.paint(words.Bold, fmt.Sprintf("%-*s", areaWidth, area)), s.paint(mark.tint, fmt.Sprintf("%-*s", levelWidth, mark.text)), line)
			} else {
				s.line("%*s%s", areaWidth+levelWidth+4, "", line)
			}
			first = false
		}
		if f.Help != "" {
			s.line("%*s> %s", areaWidth+levelWidth+4, "", s.paint(words.Bold, words.Visible(f.Help)))
		}
	}
	s.line("%s, %s", plural(r.Errors, "error"), plural(r.Warnings, "warning"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
