// Package examples_test keeps the pages of the examples true: the code they show is the
// code there is, and the commands they show print what they say.
package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPages reads the README of each example. A block of go is in one of its files. A
// block of console is a command and what it prints; a block of diff before it is a
// change to try it with, which is taken back afterwards.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != 6 {
		t.Errorf("%d examples have a page, want 6", len(pages))
	}
	index := read(t, "README.md")
	for _, page := range pages {
		dir := filepath.Dir(page)
		if !strings.Contains(index, "]("+dir+"/README.md)") {
			t.Errorf("README.md has no link to %s", page)
		}
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			var verbs []string
			var overlay string
			for _, b := range blocks(read(t, page)) {
				switch b.kind {
				case "go":
					shown(t, dir, b.text)
				case "diff":
					overlay = change(t, dir, b.text)
				case "console":
					verbs = append(verbs, command(t, b.text, overlay))
					overlay = ""
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				return // it needs servers, and its own test runs its commands
			}
			if want := []string{"run", "test", "build", "test"}; !slices.Equal(verbs, want) {
				t.Errorf("the page shows go %v, want go %v", verbs, want)
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A block is what stands between fences, with the word behind the first of them.
type block struct{ kind, text string }

func blocks(page string) (all []block) {
	for {
		_, rest, ok := strings.Cut(page, "\n```")
		if !ok {
			return all
		}
		kind, rest, _ := strings.Cut(rest, "\n")
		text, rest, _ := strings.Cut(rest, "\n```")
		all = append(all, block{kind, text + "\n"})
		page = rest
	}
}

// sources returns the Go files of an example, those that do not compile among them.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, filepath.Join(dir, "testdata", "wrong.go"))
}

func shown(t *testing.T, dir, code string) {
	t.Helper()
	if !slices.ContainsFunc(sources(t, dir), func(file string) bool { return strings.Contains(read(t, file), code) }) {
		t.Errorf("this is in no file:\n%s", code)
	}
}

// change makes a change to a copy of the file in which its old lines are, and returns
// an overlay for the go command that puts the copy in the place of the file.
func change(t *testing.T, dir, diff string) (overlay string) {
	t.Helper()
	var before, after strings.Builder
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		default:
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		}
	}
	for _, file := range sources(t, dir) {
		text := read(t, file)
		if strings.Count(text, before.String()) != 1 {
			continue
		}
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		tmp := t.TempDir()
		copied := filepath.Join(tmp, "changed.go")
		write(t, copied, []byte(strings.Replace(text, before.String(), after.String(), 1)))
		replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: copied}})
		if err != nil {
			t.Fatal(err)
		}
		overlay = filepath.Join(tmp, "overlay.json")
		write(t, overlay, replace)
		return overlay
	}
	t.Fatalf("no file has this once:\n%s", before.String())
	return ""
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a go command from the root of the repository. A program prints exactly
// what the page shows; a compiler or a test prints all of its lines, and more, with
// anything for an ellipsis. What
// compiles the wrong program or tests a changed one fails.
func command(t *testing.T, session, overlay string) (verb string) {
	t.Helper()
	line, want, _ := strings.Cut(session, "\n")
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "$" || words[1] != "go" {
		t.Fatalf("%q is no go command", line)
	}
	verb = words[2]
	args := slices.Clone(words[2:])
	if overlay != "" {
		args = slices.Insert(args, 1, "-overlay="+overlay)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if fails := verb == "build" || overlay != ""; fails != (err != nil) {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	if verb == "run" {
		if string(out) != want {
			t.Errorf("%s prints\n%s\nand the page says\n%s", line, out, want)
		}
		return verb
	}
	for said := range strings.Lines(want) {
		for part := range strings.SplitSeq(said, "…") {
			if part = strings.TrimSpace(part); !strings.Contains(string(out), part) {
				t.Errorf("%s does not print %q but\n%s", line, part, out)
			}
		}
	}
	return verb
}
