package sim

import (
	"fmt"
	"io"
	"strings"
)

// mermaidValue limits the length of a text in a diagram.
const mermaidValue = 60

// WriteMermaid writes the schedule as a sequence diagram in the language of Mermaid. If there are
// more than 60 lines, only the last 60 are written.
func (c *Counterexample) WriteMermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	all := len(c.chart.clients) + len(c.chart.places)
	for i := range all {
		fmt.Fprintf(&b, "  participant %s as %s\n", c.chart.id(i), escape(c.chart.name(i)))
	}
	rows := c.chart.rows
	if n := len(rows) - chartRows; n > 0 {
		fmt.Fprintf(&b, "  Note over %s: … %d before\n", c.chart.id(0), n)
		rows = rows[n:]
	}
	for _, r := range rows {
		who := c.chart.id(r.who)
		switch {
		case r.bad:
			over := c.chart.id(0)
			if all > 1 {
				over += "," + c.chart.id(all-1)
			}
			fmt.Fprintf(&b, "  Note over %s: ✗ %s\n", over, escape(r.text))
		case r.with < 0:
			fmt.Fprintf(&b, "  Note over %s: %s\n", who, escape(r.text))
		case r.back:
			fmt.Fprintf(&b, "  %s--)%s: %s %s\n", c.chart.id(r.with), who, escape(r.port), escape(r.text))
		default:
			fmt.Fprintf(&b, "  %s-)%s: %s %s\n", who, c.chart.id(r.with), escape(r.port), escape(r.text))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// id returns the identifier of participant i in a diagram.
func (t *chart) id(i int) string {
	if i < len(t.clients) {
		return fmt.Sprint("c", i)
	}
	return fmt.Sprint("l", i-len(t.clients))
}

// name returns the name of participant i.
func (t *chart) name(i int) string {
	if i < len(t.clients) {
		return t.clients[i]
	}
	return t.places[i-len(t.clients)]
}

// escape returns s, shortened, with the characters escaped that have a meaning in a diagram.
func escape(s string) string {
	var b strings.Builder
	for _, c := range cut(s, mermaidValue) {
		switch c {
		case '#', ';', ':', '"', '<', '>', '%':
			fmt.Fprintf(&b, "#%d;", c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
