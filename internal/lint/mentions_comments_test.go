package lint

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	field    = regexp.MustCompile(`\[\*?(?:([a-z]\w*)\.)?([A-Z]\w*)\]\.([A-Z]\w*)`)
	decision = regexp.MustCompile(`\b[Dd]ecisions? (\d{4})\b|\((\d{4})\)`)
	caseLike = regexp.MustCompile(`\bcases? ([A-Z]\d{2})(?:(?: to |, | and )([A-Z]\d{2}))*`)
	docLink  = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Za-z]\w*(?:\.[A-Z]\w*){0,2})\](?:[\s.,;:)']|$)`)
)

// checkComment checks a line of a comment of a package.
func (d *checker) checkComment(p passage, here *pkg, imports map[string]string) (wrong []string) {
	for _, m := range docLink.FindAllStringSubmatch(p.text, -1) {
		parts := append(strings.Split(m[1], "."), "", "")
		q := parts[0]
		switch dir, imported := imports[q]; {
		case ast.IsExported(q):
			if !d.has(here, q, parts[1]) && foreign[q] == "" {
				wrong = append(wrong, "there is no "+m[1]+" in package "+here.name)
			}
		case parts[1] == "" || imported && dir == "":
		case imported:
			if !d.has(d.packages[dir], parts[1], parts[2]) {
				wrong = append(wrong, "there is no "+m[1])
			}
		case d.publicly(p.file)(q) && !slices.Contains(standard[q], parts[1]) && !d.qualified(q, parts[1], parts[2]):
			wrong = append(wrong, "there is no "+m[1])
		}
	}
	for _, m := range field.FindAllStringSubmatch(p.text, -1) {
		there := here
		if m[1] != "" {
			there = d.packages[imports[m[1]]]
			for _, named := range d.named[m[1]] {
				if there == nil && named.public {
					there = named
				}
			}
		}
		if there != nil && d.types(there, m[2]) && !d.has(there, m[2], m[3]) {
			wrong = append(wrong, "there is no "+m[2]+"."+m[3])
		}
	}
	wrong = append(wrong, d.checkNumbers(p.text)...)
	counts := func(q string) bool {
		if dir, imported := imports[q]; imported {
			return dir != ""
		}
		return slices.ContainsFunc(d.named[q], func(p *pkg) bool { return p.public })
	}
	wrong = append(wrong, d.checkQualified(p.text, counts, nil)...)
	for _, m := range member.FindAllStringSubmatch(p.text, -1) {
		if d.types(here, m[1]) && !d.has(here, m[1], m[2]) {
			wrong = append(wrong, "there is no "+m[1]+"."+m[2]+" in package "+here.name)
		}
	}
	for _, m := range option.FindAllStringSubmatch(p.text, -1) {
		if !d.anyFlag(m[1]) {
			wrong = append(wrong, "there is no flag --"+m[1])
		}
	}
	wrong = append(wrong, d.checkPaths(p.file, p.text)...)
	return append(wrong, d.checkTests(p.text)...)
}

// types reports whether a package has a type with members.
func (d *checker) types(p *pkg, name string) bool { return len(p.members[name]) > 0 }

// aliases are the short names of packages that a document introduces.
var aliases = map[string]map[string]string{
	"doc/hydro.md": {"ks": "keyedsingleton", "kst": "keyedstream", "df": "dataflow", "sg": "singleton", "opt": "optional"},
}

// checkNumbers checks the decisions and cases that a text names.
func (d *checker) checkNumbers(text string) (wrong []string) {
	for _, m := range decision.FindAllStringSubmatch(text, -1) {
		if n := m[1] + m[2]; n < "1000" && !slices.ContainsFunc(slices.Collect(maps.Keys(d.bases)), func(name string) bool { return strings.HasPrefix(name, n+"-") }) {
			wrong = append(wrong, "there is no decision "+n)
		}
	}
	for _, m := range caseLike.FindAllString(text, -1) {
		for _, id := range regexp.MustCompile(`[A-Z]\d{2}`).FindAllString(m, -1) {
			if !d.cases[id] {
				wrong = append(wrong, "there is no case "+id)
			}
		}
	}
	return wrong
}

// checkUsage checks the commands and flags in a string that the command shows to its user.
func (d *checker) checkUsage(quoted string) (wrong []string) {
	text, err := strconv.Unquote(quoted)
	if err != nil || !strings.Contains(text, " ") {
		return nil
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "usage: "); strings.HasPrefix(line, "millrace ") && !strings.ContainsAny(line, ":,%") {
			wrong = append(wrong, d.checkLine("", line)...)
		}
		for _, m := range option.FindAllStringSubmatch(line, -1) {
			if !d.anyFlag(m[1]) {
				wrong = append(wrong, "there is no flag --"+m[1])
			}
		}
	}
	return wrong
}
