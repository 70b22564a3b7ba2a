package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
)

const protocolDoc = "doc/protocol.md"

var (
	sectionHeading = regexp.MustCompile(`(?m)^#{2,3} (\d+(?:\.\d+)?) `)
	section        = regexp.MustCompile(`§(\d+(?:\.\d+)?)`)
	sectionOf      = regexp.MustCompile(`\bprotocol\.md(?:[ ,]+(?:and |to )?§[\d.]*\d)+`)
	oldNumber      = regexp.MustCompile(`(?i)\bprotocol(?:'s)?,? parts? \d`)
	caseID         = regexp.MustCompile(`\b[A-Z]\d{2}\b`)
)

// protocolText returns the specification of the protocol.
func protocolText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(protocolDoc)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sectionsOf returns the numbers of the sections of a document.
func sectionsOf(text string) map[string]bool {
	sections := map[string]bool{}
	for _, m := range sectionHeading.FindAllStringSubmatch(text, -1) {
		sections[m[1]] = true
	}
	return sections
}

// wrongSections returns the mistakes in a text where it names sections of the protocol.
func wrongSections(sections map[string]bool, text string) (wrong []string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, named := range sectionOf.FindAllString(text, -1) {
		for _, m := range section.FindAllStringSubmatch(named, -1) {
			if !sections[m[1]] {
				wrong = append(wrong, "there is no §"+m[1]+" in "+protocolDoc)
			}
		}
	}
	if old := oldNumber.FindString(text); old != "" {
		wrong = append(wrong, fmt.Sprintf("%q is a number of no document here: name a section of %s, or a threat of doc/threats.md", old, protocolDoc))
	}
	return wrong
}

// TestProtocolSections checks that every section of the protocol that a comment, a string or a
// document names exists: a reader who follows an outdated number would find another rule. The
// numbers of old conformance reports are not allowed.
func TestProtocolSections(t *testing.T) {
	text := protocolText(t)
	sections := sectionsOf(text)
	for i, line := range strings.Split(text, "\n") {
		for _, m := range section.FindAllStringSubmatch(line, -1) {
			if !sections[m[1]] {
				t.Errorf("%s:%d: there is no §%s", protocolDoc, i+1, m[1])
			}
		}
	}
	named := 0
	check := func(where fmt.Stringer, text string) {
		named += len(sectionOf.FindAllString(text, -1))
		for _, w := range wrongSections(sections, text) {
			t.Errorf("%s: %s", where, w)
		}
	}
	for file, text := range documents(t) {
		line := 1
		for paragraph := range strings.SplitAfterSeq(text, "\n\n") {
			check(passage{file, line, comment, ""}, paragraph)
			line += strings.Count(paragraph, "\n")
		}
	}
	for _, f := range sources(t) {
		for _, c := range f.Comments {
			check(f.fset.Position(c.Pos()), c.Text())
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && f.dir != "internal/lint" {
				check(f.fset.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	}
	if named < 40 {
		t.Errorf("only %d places name a section of %s", named, protocolDoc)
	}
}

// TestWrongSections checks that mistakes are found, even where a line ends.
func TestWrongSections(t *testing.T) {
	sections := sectionsOf("# P\n\n## 1 Roles\n### 1.2 Keys\n## 10 Moving\n")
	for text, want := range map[string]int{
		"see doc/protocol.md §1.2":              0,
		"see doc/protocol.md §1, §1.2 and §10.": 0,
		"see doc/protocol.md §1.3":              1,
		"see doc/protocol.md §1.2 and §3":       1,
		"see doc/protocol.md\n§2":               1,
		"edge-case §9 of something else":        0,
		"see Protocol" + " part 1.2":            1,
		"the protocol's\npart 3":                1,
		"a protocol party":                      0,
	} {
		if got := wrongSections(sections, text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

// TestProtocolCases checks that the table of cases in the specification is that of the
// conformance runner, that the section of each case exists, and that every case cited by a rule exists.
func TestProtocolCases(t *testing.T) {
	text := protocolText(t)
	sections := sectionsOf(text)
	cases := map[string]bool{}
	for _, c := range conform.Cases() {
		cases[c.ID] = true
		row := fmt.Sprintf("\n| %s | %s | %s | %s | %s | §%s |\n", c.ID, c.Sides, c.Level, c.Action, c.Expected, c.Section)
		if !strings.Contains(text, row) {
			t.Errorf("%s has no line %q", protocolDoc, strings.TrimSpace(row))
		}
		if !sections[c.Section] {
			t.Errorf("the runner has the rule of %s in §%s, which is not in %s", c.ID, c.Section, protocolDoc)
		}
		if strings.Count(text, "\n| "+c.ID+" |") != 1 {
			t.Errorf("%s has several lines of %s", protocolDoc, c.ID)
		}
	}
	for _, id := range caseID.FindAllString(text, -1) {
		if !cases[id] {
			t.Errorf("%s: there is no case %s", protocolDoc, id)
		}
	}
}
