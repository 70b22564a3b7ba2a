package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
)

// A style colours text for terminals.
type style struct{ colour bool }

func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) good(text string) string { return s.paint("32", text) }
func (s style) bad(text string) string  { return s.paint("31;1", text) }

// intro prints what was started.
func (d *demoRun) intro(s processes) {
	fmt.Fprintf(d.out, "%s\n\n", d.style.bold("An agent runtime and its tools: every call resolves to exactly one result."))
	for _, x := range s {
		fmt.Fprintf(d.out, "  tool server     %-9s %s  (process %d)\n", x.name, x.url, x.cmd.Process.Pid)
	}
	fmt.Fprintf(d.out, "  runtime                   %s\n\n", d.rt.PublicURL())
}

// table prints how each call resolved, and returns the totals.
func (d *demoRun) table(stats host.Stats) totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := totals{Calls: len(d.order), DuplicatesDropped: stats.Duplicates, LateDropped: stats.Late}
	head := []string{"", "thread", "call", "what happened", "resolved by", "took", "result"}
	rows := [][]string{}
	var wrong []string
	thread := ""
	for _, c := range d.order {
		t.Results += len(c.results)
		mark, by, text := "✗", "nothing", ""
		if len(c.results) > 0 {
			by, text = c.results[0].Cause.String(), c.results[0].Result.String()
		}
		if c.detour != "" {
			by = c.detour + " → " + by
		}
		switch {
		case len(c.results) != 1:
			wrong = append(wrong, fmt.Sprintf("%s has %d results, want 1", c.operation, len(c.results)))
		case c.results[0].Cause != c.cause || !strings.Contains(text, c.text):
			wrong = append(wrong, fmt.Sprintf("%s resolved by %s with %q, want %s with %q", c.operation, c.results[0].Cause, text, c.cause, c.text))
		default:
			mark = "✓"
			t.Expected++
		}
		name := ""
		if c.thread != thread {
			thread, name = c.thread, c.thread
			if len(rows) > 0 {
				rows = append(rows, nil)
			}
		}
		rows = append(rows, []string{mark, name, c.operation, c.what, by, took(c.took), clip(text, 48)})
	}
	d.rows(head, rows)
	fmt.Fprintf(d.out, "\n  %d calls, %d results, %d as expected; dropped: %d duplicates, %d late\n",
		t.Calls, t.Results, t.Expected, t.DuplicatesDropped, t.LateDropped)
	if t.DuplicatesDropped != wantDuplicates || t.LateDropped != wantLate {
		wrong = append(wrong, fmt.Sprintf("dropped %d duplicates and %d late ones, want %d and %d", t.DuplicatesDropped, t.LateDropped, wantDuplicates, wantLate))
	}
	for _, w := range append(d.problems, wrong...) {
		fmt.Fprintf(d.out, "  %s\n", d.style.bad("✗ "+plain.Line(w)))
	}
	fmt.Fprintln(d.out)
	return t
}

// rows prints a table. A nil row is a gap, and a row of one cell spans the
// table.
func (d *demoRun) rows(head []string, rows [][]string) {
	for _, r := range rows {
		for i := range r {
			r[i] = plain.Line(r[i])
		}
	}
	width := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		if len(r) == 1 {
			continue
		}
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(r []string, paint func(i int, cell string) string) {
		for len(r) > 1 && r[len(r)-1] == "" { // no blanks at the end of a line
			r = r[:len(r)-1]
		}
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if head[i] == "took" {
				cell, pad = pad+cell, ""
			}
			if i == len(r)-1 {
				pad = ""
			}
			fmt.Fprintf(d.out, "  %s%s", paint(i, cell), pad)
		}
		fmt.Fprintln(d.out)
	}
	line(head, func(_ int, cell string) string { return d.style.dim(cell) })
	for _, r := range rows {
		if len(r) == 1 {
			fmt.Fprintf(d.out, "     %s\n", d.style.dim(r[0]))
			continue
		}
		line(r, func(i int, cell string) string {
			switch {
			case cell == "✓":
				return d.style.good(cell)
			case cell == "✗":
				return d.style.bad(cell)
			case head[i] == "call", head[i] == "who":
				return d.style.bold(cell)
			case head[i] == "took", head[i] == "what happened":
				return d.style.dim(cell)
			}
			return cell
		})
	}
}

// took formats a duration for people.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// clip shortens a text to one line of n runes.
func clip(text string, n int) string {
	line, _, more := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > n {
		line, more = string(r[:n-1]), true
	}
	if more {
		line += "…"
	}
	return cmp.Or(line, "–")
}
