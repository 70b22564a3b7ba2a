package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A passage is a piece of a document: text between backquotes, a line of a command, a line of Go
// or JSON, the target of a link, or a line of text without any of these.
type passage struct {
	file string // from the root of the repository
	line int
	kind passageKind
	text string
}

type passageKind int

const (
	span passageKind = iota
	command
	code
	object
	link
	prose
	comment
)

func (p passage) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// documents returns the Markdown files of the repository with their texts.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	all := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || p != root && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".md") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	spans = regexp.MustCompile("`([^`]+)`")
	links = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// blanked returns the line breaks of a text.
func blanked(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// passagesOf divides a Markdown text into passages.
func passagesOf(file, page string) (all []passage) {
	add := func(kind passageKind, line int, text string) {
		all = append(all, passage{file, line, kind, text})
	}
	var text []string // of one paragraph
	begun := 0
	flush := func() {
		// A span may continue on the next line.
		for _, m := range spans.FindAllStringSubmatchIndex(strings.Join(text, "\n"), -1) {
			joined := strings.Join(text, "\n")
			add(span, begun+strings.Count(joined[:m[0]], "\n"), strings.ReplaceAll(joined[m[2]:m[3]], "\n", " "))
		}
		for i, l := range strings.Split(spans.ReplaceAllStringFunc(strings.Join(text, "\n"), blanked), "\n") {
			for _, m := range links.FindAllStringSubmatch(l, -1) {
				add(link, begun+i, m[1])
			}
			if l = strings.TrimSpace(links.ReplaceAllString(l, "]")); strings.Trim(l, "|- ") != "" {
				add(prose, begun+i, l)
			}
		}
		text = nil
	}
	fence, language, blank, indented, continued := false, "", true, false, ""
	for i, l := range strings.Split(page, "\n") {
		n := i + 1
		shell := func(l string) {
			if l = strings.TrimSpace(l); strings.HasSuffix(l, `\`) {
				continued += strings.TrimSuffix(l, `\`)
				return
			}
			add(command, n, continued+l)
			continued = ""
		}
		switch trimmed := strings.TrimSpace(l); {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			fence, language = !fence, strings.TrimPrefix(trimmed, "```")
		case fence:
			switch language {
			case "go":
				add(code, n, l)
			case "json":
				add(object, n, l)
			case "", "sh", "bash", "console":
				shell(l)
			}
		case trimmed == "":
			flush()
			blank = true
			continue
		case strings.HasPrefix(l, "    ") && (blank || indented):
			flush()
			indented = true
			shell(l)
			continue
		default:
			if len(text) == 0 {
				begun = n
			}
			text = append(text, l)
			if strings.HasPrefix(trimmed, "|") { // each row of a table is separate
				flush()
			}
		}
		blank, indented = false, false
	}
	flush()
	return all
}

// comments returns the lines of the comments of the Go files.
func comments(files []source) (all []passage) {
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				at := f.fset.Position(c.Pos()).Line
				for i, l := range strings.Split(c.Text, "\n") {
					l = strings.TrimPrefix(strings.TrimPrefix(l, "//"), "/*")
					kind := comment
					if strings.HasPrefix(l, "\t") {
						kind = command
					}
					all = append(all, passage{f.path, at + i, kind, l})
				}
			}
		}
	}
	return all
}
