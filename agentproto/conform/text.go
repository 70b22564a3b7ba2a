package conform

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteTable writes the report for people: a line for each case, the reasons why cases did not
// pass, and counts by level.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	for _, x := range r.Results {
		b.WriteString(x.line())
	}
	fmt.Fprintf(&b, "\n%-8s %6s %6s %6s %6s %6s\n", "level", "cases", "pass", "fail", "error", "n/a")
	for _, l := range []Level{Must, Should, Profile, ""} {
		name, all := string(l), 0
		if l == "" {
			name = "all"
		}
		for _, x := range r.Results {
			if l == "" || x.Level == l {
				all++
			}
		}
		if all == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-8s %6d %6d %6d %6d %6d\n", name, all, r.Count(l, Passed)+r.Count(l, UnexpectedPass),
			r.Count(l, Failed)+r.Count(l, ExpectedFail), r.Count(l, Errored), r.Count(l, Inapplicable))
	}
	fmt.Fprintf(&b, "\n%s %s, %v", r.Side.name(), printable(r.Target), r.Took.Round(time.Millisecond))
	if n := r.Count("", ExpectedFail); n > 0 {
		fmt.Fprintf(&b, "; %d failed as expected", n)
	}
	if n := r.Count("", UnexpectedPass); n > 0 {
		fmt.Fprintf(&b, "; %d passed that are expected to fail: take them out of the baseline", n)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// marks are the first words of the table's lines.
var marks = map[Status]string{
	Passed: "ok", Failed: "FAIL", Inapplicable: "n/a", Errored: "ERROR", ExpectedFail: "xfail", UnexpectedPass: "XPASS",
}

// line returns the text of one case, which may have several lines.
func (x Result) line() string {
	s := fmt.Sprintf("%-5s  %s %s  %-66s %7s\n", marks[x.Status], x.ID, x.Level, x.Action, x.Took.Round(time.Millisecond))
	if f := x.Failure; f != nil {
		s += fmt.Sprintf("         sent      %s\n         got       %s\n         expected  %s (doc/protocol.md §%s)\n",
			printable(f.Sent), indented(f.Got), printable(f.Expected), f.Section)
	}
	if x.Reason != "" && (x.Failure == nil || x.Status == ExpectedFail) {
		s += "         " + indented(x.Reason) + "\n"
	}
	for _, n := range x.Notes {
		s += "         note      " + indented(n) + "\n"
	}
	return s
}

// indented indents the lines of a text.
func indented(s string) string {
	return strings.ReplaceAll(strings.TrimRight(printable(s), "\n"), "\n", "\n         ")
}
