package lint

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestArchitectureFound checks that [TestArchitecture] reports what is wrong, and nothing else.
func TestArchitectureFound(t *testing.T) {
	const code = `package p

type Port interface{ Give() }

type loop struct{ size int }

func (l *loop) run() {
	for range l.size {
		step(l.after)
	}
}

func (l *loop) after() {}

func step(do func()) { do() }
`
	parsed, err := parser.ParseFile(token.NewFileSet(), "p/loop.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := declarations([]source{{File: parsed, path: "p/loop.go", dir: "p"}})
	said := func(name string) []string {
		if name == "Loop.Gone" {
			return []string{"there is no " + name}
		}
		return nil
	}
	inWalk := func(text string) []string { return checkWalk(of, chart{1, strings.Split(text, "\n")}, said) }
	inText := func(text string) []string {
		return checkPlaces(of, text, func(name string) bool { return name != "other" })
	}
	inPicture := func(text string) []string {
		return checkPicture(rowsOf(chart{1, strings.Split(text, "\n")}), []string{"a", "b", "b/c", "d"}, map[string][]string{"a": {"b", "d"}, "b": {"b/c"}, "b/c": {"b"}})
	}
	for _, test := range []struct {
		look       func(string) []string
		text, want string // part of what is reported; empty if nothing is
	}{
		{inWalk, "loop.run  p/loop.go  begins\n  step  p/loop.go\n  loop.after  p/loop.go", ""},
		{inWalk, "Port.Give  p/loop.go\nloop.size  p/loop.go", ""},
		{inWalk, "loop.ran  p/loop.go", "does not declare loop.ran"},
		{inWalk, "run  p/loop.go", "does not declare run"},
		{inWalk, "loop.run  p/lop.go", "there is no p/lop.go"},
		{inWalk, "loop.run  p/loop.go\n  step  p/loop.go\n    loop.after  p/loop.go", "line 3: step does not mention after"},
		{inWalk, "Port.Give  p/loop.go\n  step  p/loop.go", "Port.Give does not mention step"},
		{inWalk, "  step  p/loop.go", "below nothing"},
		{inWalk, "loop.run begins", "not a function and its file"},
		{inWalk, "loop.run  p/loop.go  has Loop.Size and Loop.Gone", "line 1: there is no Loop.Gone"},
		{inText, "see `run` and\n`step` in `p/loop.go`, and `loop.after` in `p`", ""},
		{inText, "- see `run` and\n  `gone` in\n  `p/loop.go`", "there is no gone in p/loop.go"},
		{inText, "see `run` and `stop` in `p/loop.go`", "no stop in p/loop.go"},
		{inText, "see `stop`\nin `p`", "no stop in p"},
		{inText, "see `step` in `q`", "no step in q"},
		{inText, "see `run`, `stop` and `step` in `p`", "no stop in p"},
		{inText, "see `loop.go` in `p`, `other` in `p`, and `step` in this `q`", ""},
		{inText, "see `loop.go` in `pp`", "no loop.go in pp"},
		{inPicture, "top     a\nmiddle  b/...\n        ──────\nbottom  d", ""},
		{inPicture, "top     a  b/...\nbottom  d", ""},
		{inPicture, "top     b/...  a\nbottom  d", "a imports b, which is above it or to its left"},
		{inPicture, "top     b/...\nmiddle  a\n        d", "a imports b,"},
		{inPicture, "top     a\nmiddle  b  b/c\nbottom  d", "b/c imports b,"},
		{inPicture, "top     a  b\nbottom  d", "b/c has no place in the picture"},
		{inPicture, "top     a  b/...  b/...\nbottom  d", "b has 2 places in the picture"},
		{inPicture, "top     a\nmiddle  b/...\nbottom  b/c  d", "b/c imports b,"},
		{inPicture, "top     a  b  b/...\nbottom  d", "b/c imports b,"},
		{inPicture, "top     a  b/...\nbottom  d  e", "no package e"},
		{inPicture, "top     a  b/...\nbottom  d  e/...", "no package e/..."},
	} {
		found := strings.Join(test.look(test.text), "; ")
		if (found == "") != (test.want == "") || !strings.Contains(found, test.want) {
			t.Errorf("%q: found %q, want %q", test.text, found, test.want)
		}
	}
}
