package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Counterexample is a schedule in which a property does not hold.
type Counterexample struct {
	trace string
	chart chart
	log   []string
}

// Trace returns the choices of the schedule, for [Trace] and for the flag -sim.replay.
func (c *Counterexample) Trace() string { return c.trace }

// counterexample runs the failed schedule again and returns it with a record of what happens.
func (x subject) counterexample(run execution) *Counterexample {
	c := &Counterexample{trace: run.trace}
	choices, err := scriptOf(run.trace)
	if err != nil {
		return c
	}
	notes := &printout{}
	again := x.execute(choices, notes)
	c.chart, c.log = notes.chart, again.log
	return c
}

const (
	chartWidth = 100
	timeWidth  = 13
	chartRows  = 60
)

// WriteText writes the schedule as a sequence chart with one line per move, at most 100 columns
// wide. The columns are the clients, followed by the locations. If there are more than 60
// lines, only the last 60 are written.
func (c *Counterexample) WriteText(w io.Writer) error {
	names := slices.Concat(c.chart.clients, c.chart.places)
	width := 20
	if n := len(names); n > 0 {
		width = max(min((chartWidth-timeWidth)/n, 30), 8)
	}
	var b strings.Builder
	b.WriteString(line("time", names, width))
	rows := c.chart.rows
	if n := len(rows) - chartRows; n > 0 {
		fmt.Fprintf(&b, "          … %d before\n", n)
		rows = rows[n:]
	}
	for _, r := range rows {
		b.WriteString(r.line(width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line returns a line with one word in each column.
func line(first string, words []string, width int) string {
	s := pad(first, timeWidth)
	for _, word := range words {
		s += pad(cut(word, width-1), width)
	}
	return strings.TrimRight(s, " ") + "\n"
}

// line returns the row as a line of a chart whose columns have the given width.
func (r row) line(width int) string {
	at := timeWidth + r.who*width
	s := pad(r.at.String(), timeWidth)
	switch {
	case r.bad:
		s = pad("", timeWidth) + "✗ " + cut(r.text, chartWidth-timeWidth-2)
	case r.with < 0:
		at = min(at, max(chartWidth-utf8.RuneCountInString(r.text), timeWidth))
		s = pad(s, at) + r.text
	default:
		to := timeWidth + r.with*width
		text := r.text
		if most := to - at - 6; utf8.RuneCountInString(text) > most {
			text = cut(text, max(most, 4))
		}
		dashes := strings.Repeat("─", max(to-at-utf8.RuneCountInString(text)-4, 1))
		if r.back {
			s = pad(s, at) + text + " ◀" + dashes + "  " + r.port
		} else {
			s = pad(s, at) + text + " " + dashes + "▶  " + r.port
		}
	}
	return strings.TrimRight(cut(s, chartWidth), " ") + "\n"
}

// pad appends spaces to s up to the given width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// cut shortens s to at most the given number of characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:max(most-1, 0)]) + "…"
}

// String returns the chart, followed by the schedule's log.
func (c *Counterexample) String() string {
	var b strings.Builder
	_ = c.WriteText(&b) // a Builder has no errors
	for _, entry := range c.log {
		fmt.Fprintf(&b, "         %s\n", strings.ReplaceAll(entry, "\n", "\n         "))
	}
	return b.String()
}
