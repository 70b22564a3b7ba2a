//go:build unix

// Package examples_test checks the pages of the examples: the code on them is in the examples, and
// the commands on them print what the pages say.
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

// noFlow lists the examples whose page has no picture, and why.
var noFlow = map[string]string{
	"account": "a tool server, whose flow is not the example's",
	"agent":   "a runtime and a tool server, whose flows are not the example's",
}

// mostLines is the maximum number of lines of Go of an example, without tests.
const mostLines = 200

// longer lists the examples that exceed mostLines, and why.
var longer = map[string]string{
	"orders": "half of it starts servers' clients, makes orders, and checks the totals against a query",
}

// folders returns the examples.
func folders(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		all = append(all, filepath.Dir(file))
	}
	return all
}

// TestPages checks the README of each example. A block of go must be in one of its files. A block
// of mermaid is a picture, which the example's own test compares with the flow. A block of console
// has commands and their output. If a block of diff precedes it, the commands run with that
// change, which is undone afterwards.
func TestPages(t *testing.T) {
	all := folders(t)
	if len(all) < 12 {
		t.Errorf("there are %d examples, want 12 at least", len(all))
	}
	index := read(t, "README.md")
	for _, dir := range all {
		page := filepath.Join(dir, "README.md")
		if n := strings.Count(index, "]("+dir+"/README.md)"); n != 1 {
			t.Errorf("README.md has %d links to %s, want 1", n, page)
		}
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			text := read(t, page)
			_, err := os.Stat(filepath.Join(dir, "go.mod"))
			runs := err != nil // a nested module needs servers, and its own test runs its commands
			var overlay string
			has := make(map[string]int) // kinds of blocks, and go run and go test
			s := newSession(t)
			for _, b := range blocks(text) {
				has[b.kind]++
				switch b.kind {
				case "go":
					shown(t, dir, b.text)
				case "mermaid":
					if !strings.HasPrefix(b.text, "flowchart ") {
						t.Error("the picture is empty: run the example's test with -picture.update")
					}
				case "diff":
					overlay = change(t, dir, b.text)
				case "console":
					for _, c := range commands(t, b.text) {
						for _, verb := range []string{"run", "test"} {
							if strings.HasPrefix(c.line, "go "+verb+" ") {
								has["go "+verb]++
							}
						}
						switch {
						case !runs:
						case strings.HasPrefix(c.line, "go test ") || strings.HasPrefix(c.line, "go build "):
							tool(t, c, overlay)
						default:
							s.run(t, c)
						}
					}
					overlay = ""
				}
			}
			if noFlow[dir] == "" {
				if has["mermaid"] != 1 {
					t.Errorf("the page has %d pictures, want 1", has["mermaid"])
				}
				if !pictured(t, dir) {
					t.Error("no test compares the picture with the flow: call page.Picture")
				}
			}
			for _, kind := range []string{"go", "go run", "go test"} {
				if has[kind] == 0 && runs {
					t.Errorf("the page shows no %s", kind)
				}
			}
		})
	}
}

// TestLength checks that examples are short enough to read in one go.
func TestLength(t *testing.T) {
	for _, dir := range folders(t) {
		lines := 0
		for _, file := range sources(t, dir) {
			if !strings.HasSuffix(file, "_test.go") && filepath.Dir(file) == dir {
				lines += strings.Count(read(t, file), "\n")
			}
		}
		if lines > mostLines && longer[dir] == "" {
			t.Errorf("%s has %d lines of Go, want %d at most", dir, lines, mostLines)
		}
	}
}

// pictured reports whether a test of an example checks its picture.
func pictured(t *testing.T, dir string) bool {
	t.Helper()
	return slices.ContainsFunc(sources(t, dir), func(file string) bool {
		return strings.HasSuffix(file, "_test.go") && strings.Contains(read(t, file), "page.Picture(t, ")
	})
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A block is the text between two fences, with the word after the first fence.
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

// sources returns the Go files of an example, including those that do not compile.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "testdata", "wrong.go")
	if _, err := os.Stat(wrong); err == nil {
		files = append(files, wrong)
	}
	return files
}

func shown(t *testing.T, dir, code string) {
	t.Helper()
	if !slices.ContainsFunc(sources(t, dir), func(file string) bool { return strings.Contains(read(t, file), code) }) {
		t.Errorf("this is in no file:\n%s", code)
	}
}

// change applies a diff to a copy of the file that contains its old lines, and returns an overlay
// for the go command that replaces the file with the copy.
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

// tool runs go test or go build from the root of the repository. The output must contain all lines
// on the page, where an ellipsis stands for any text. The command must fail if it builds the wrong
// program or tests a changed one.
func tool(t *testing.T, c command, overlay string) {
	t.Helper()
	line := c.line
	if overlay != "" {
		line = strings.Replace(line, "go test ", "go test -overlay='"+overlay+"' ", 1)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if fails := strings.HasPrefix(line, "go build ") || overlay != ""; fails != (err != nil) {
		t.Errorf("%s: %v\n%s", c.line, err, out)
	}
	for said := range strings.Lines(c.prints) {
		for part := range strings.SplitSeq(said, "…") {
			if part = strings.TrimSpace(part); !strings.Contains(string(out), part) {
				t.Errorf("%s does not print %q but\n%s", c.line, part, out)
			}
		}
	}
}
