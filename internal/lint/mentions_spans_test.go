package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	word         = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	header       = regexp.MustCompile(`^([A-Z][a-z]+(?:-[A-Z][a-z]+)+)(: .*)?$`)
	memberOf     = regexp.MustCompile(`^([A-Za-z]\w*)\.([a-z]\w*)(?:[ (].*)?$`)
	quoted       = regexp.MustCompile(`"([A-Za-z_]\w*)"(: *"\w*")?`)
	jsonOf       = regexp.MustCompile(`^[{"]`)
	query        = regexp.MustCompile(`[?&](\w+)=`)
	requestBelow = regexp.MustCompile(`^(?:GET|POST|PUT|DELETE) (?:\{[^}]*\})?(/\S*)`)
)

// checkWords checks text between backquotes that is not a Go name, a path or a command: members
// of JSON, words of formats, headers, requests.
func (d *checker) checkWords(file, text string) (wrong []string) {
	missing := func(format, name string) { wrong = append(wrong, fmt.Sprintf(format, name)) }
	if m := header.FindStringSubmatch(text); m != nil && !d.literals[m[1]] && !d.literals[strings.ToLower(m[1])] && foreign[m[1]] == "" {
		missing("nothing is called %s", m[1])
	}
	if jsonOf.MatchString(text) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if !d.literals[m[1]] && foreign[m[1]] == "" {
				missing("nothing is called %s", m[1])
			}
		}
	}
	for _, m := range query.FindAllStringSubmatch(text, -1) {
		if !d.literals[m[1]] {
			missing("nothing is called %s", m[1])
		}
	}
	if m := requestBelow.FindStringSubmatch(text); m != nil {
		for part := range strings.SplitSeq(strings.Trim(m[1], "/"), "/") {
			if word.MatchString(part) && !d.literals[part] {
				missing("no request has %s in its path", part)
			}
		}
	}
	if len(aliases[file]) > 0 { // the names of another system
		return wrong
	}
	if word.MatchString(text) && !d.literals[text] && !d.words[text] && d.named[text] == nil && !d.isFolder(text) && foreign[text] == "" {
		missing("nothing is called %s", text)
	}
	if m := memberOf.FindStringSubmatch(text); m != nil && !d.anyMember(m[1], m[2]) && !d.literals[m[1]+"."+m[2]] && !d.bases[m[1]+"."+m[2]] && foreign[m[1]+"."+m[2]] == "" {
		missing("there is no %s", m[1]+"."+m[2])
	}
	return wrong
}

var (
	composite = regexp.MustCompile(`(?:^|[^\w.])([a-z]\w*)\.([A-Z]\w*)\{([^{}]*)`)
	fieldSet  = regexp.MustCompile(`(?:^|, ?)([A-Z]\w*):`)
)

// checkFields checks the field names in composite literals of the types of packages; see
// checkQualified.
func (d *checker) checkFields(text string, counts func(string) bool, alias map[string]string) (wrong []string) {
	for _, m := range composite.FindAllStringSubmatch(text, -1) {
		q := m[1]
		if a := alias[q]; a != "" {
			q = a
		}
		if !counts(q) || !d.qualified(q, m[2], "") {
			continue
		}
		for _, f := range fieldSet.FindAllStringSubmatch(m[3], -1) {
			if !d.qualified(q, m[2], f[1]) {
				wrong = append(wrong, fmt.Sprintf("there is no %s.%s.%s", m[1], m[2], f[1]))
			}
		}
	}
	return wrong
}

// isFolder reports whether some folder has a name.
func (d *checker) isFolder(name string) bool {
	for p := range d.paths {
		if slices.Contains(strings.Split(p, "/"), name) {
			return true
		}
	}
	return false
}

// checkProse checks the flags, files and tests that a text names outside backquotes.
func (d *checker) checkProse(p passage) (wrong []string) {
	for _, m := range option.FindAllStringSubmatch(p.text, -1) {
		if !d.anyFlag(m[1]) {
			wrong = append(wrong, "there is no flag --"+m[1])
		}
	}
	wrong = append(wrong, d.checkPaths(p.file, p.text)...)
	return append(wrong, d.checkTests(p.text)...)
}
