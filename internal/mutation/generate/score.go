package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// An outcome is the result of trying a mutant.
type outcome int

const (
	killed    outcome = iota
	survived          // and is not listed
	same              // survived and is listed as equivalent
	uncovered         // not tried, since no test reaches it
	invalid           // does not compile, and does not count
	outcomes
)

var outcomeNames = []string{"killed", "survived", "equivalent", "uncovered", "invalid"}

func (o outcome) String() string { return outcomeNames[o] }

// called returns the outcome with a name.
func called(name string) outcome { return outcome(slices.Index(outcomeNames, name)) }

// A score counts the outcomes of a folder.
type score [outcomes]int

// A tally counts outcomes and prints them.
type tally struct {
	w          io.Writer
	equivalent map[string]string // reasons, by the name of a mutant with its change
	scores     map[string]*score
	wrong      int
}

// count counts and prints an outcome. Unexpected outcomes also count as wrong.
func (t *tally) count(m mutant, what outcome, by string) error {
	if _, listed := t.equivalent[m.listed()]; listed && (what == survived || what == uncovered) {
		what = same
	} else if listed && what == killed || what == survived || what == uncovered {
		t.wrong++
	}
	s := t.scores[m.dir()]
	if s == nil {
		s = new(score)
		t.scores[m.dir()] = s
	}
	s[what]++
	text := m.text
	if cut := strings.Fields(text); len(text) > 60 {
		text = strings.Join(cut, " ")
		text = text[:min(len(text), 60)] + "…"
	}
	if by != "" {
		by = " by " + by
	}
	if what == survived || what == uncovered {
		by = fmt.Sprintf(" (change %s)", m.change)
	}
	_, err := fmt.Fprintf(t.w, "%-10s %s:%d %s %s %d: %q%s\n", what, m.file, m.line, m.fn, m.operator, m.ordinal, text, by)
	return err
}

// end prints the table, and returns an error if an outcome was wrong.
func (t *tally) end(packages []folder) error {
	var dirs []string
	for _, p := range packages {
		dirs = append(dirs, p.dir)
	}
	if _, err := io.WriteString(t.w, table(dirs, t.scores)); err != nil {
		return err
	}
	if t.wrong > 0 {
		return fmt.Errorf("%d mutants survive and are not listed as equivalent, or are listed and killed", t.wrong)
	}
	return nil
}

// table formats the scores of folders that have any, and their sum. The score is the share of
// killed mutants among all that are neither equivalent nor invalid.
func table(dirs []string, scores map[string]*score) string {
	var b strings.Builder
	b.WriteString("| package | mutants | killed | survived | equivalent | uncovered | score |\n|---|---|---|---|---|---|---|\n")
	var sum score
	for _, dir := range dirs {
		if s := scores[dir]; s != nil {
			b.WriteString(s.row(dir))
			for i, n := range s {
				sum[i] += n
			}
		}
	}
	b.WriteString(sum.row("all"))
	return b.String()
}

// row formats one row of a table.
func (s *score) row(name string) string {
	all := s[killed] + s[survived] + s[uncovered]
	percent := "–"
	if all > 0 {
		percent = fmt.Sprintf("%.1f %%", 100*float64(s[killed])/float64(all))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |\n", name, all+s[same], s[killed], s[survived], s[same], s[uncovered], percent)
}
