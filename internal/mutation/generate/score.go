package main

import (
	"fmt"
	"strings"
)

// An outcome is what came of a mutant.
type outcome int

const (
	killed    outcome = iota
	survived          // and is not listed
	same              // survived and is listed as equivalent
	uncovered         // not tried, since no test reaches it
	invalid           // does not compile, and does not count
	outcomes
)

func (o outcome) String() string {
	return [...]string{"killed", "survived", "equivalent", "uncovered", "invalid"}[o]
}

// A score counts the outcomes of a folder.
type score [outcomes]int

// table prints the scores of folders that have any, and their sum: killed of all that are neither
// equivalent nor invalid.
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

// row prints one row of a table.
func (s *score) row(name string) string {
	all := s[killed] + s[survived] + s[uncovered]
	percent := "–"
	if all > 0 {
		percent = fmt.Sprintf("%.1f %%", 100*float64(s[killed])/float64(all))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |\n", name, all+s[same], s[killed], s[survived], s[same], s[uncovered], percent)
}
