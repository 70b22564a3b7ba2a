// Package millrace_test checks the programs in the documentation.
package millrace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeProgram runs the program of the README and compares its output with the output
// that the README states.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	program, rest, ok2 := strings.Cut(rest, "```\n")
	_, rest, ok3 := strings.Cut(rest, "It prints `")
	want, _, ok4 := strings.Cut(rest, "`")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatal("README.md has no program, or does not say what it prints")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("the program prints %q, the README says %q", got, want)
	}
}

// TestReadmeProperty tests the property of the README with two programs. It must hold for the program
// of the README. It must fail with two votes for a program in which a proposal passes too early.
func TestReadmeProperty(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	program, rest, ok2 := strings.Cut(rest, "```\n")
	_, rest, ok3 := strings.Cut(rest, "```go\nfunc Test")
	property, _, ok4 := strings.Cut(rest, "```\n")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatal("README.md has no program, or no property of it")
	}
	const module = "github.com/millrace/millrace/dataflow"
	test := "package main\n\nimport (\n"
	for _, path := range []string{"fmt", "testing", "github.com/leanovate/gopter", "github.com/leanovate/gopter/gen", module, module + "/sim", module + "/sim/simprop"} {
		test += "\t\"" + path + "\"\n"
	}
	test += ")\n\nfunc Test" + property
	early := strings.Replace(program, "*n == 3", "*n == 2", 1)
	for _, try := range []struct{ program, want string }{{program, "ok  "}, {early, "2 yes; passed: true"}} {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "main.go"), filepath.Join(dir, "main_test.go")}
		for i, text := range []string{try.program, test} {
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1"}, files...)...).CombinedOutput()
		if !strings.Contains(string(out), try.want) || (err == nil) != (try.program == program) {
			t.Errorf("%v\n%s\nwant %q", err, out, try.want)
		}
	}
}

// TestReadmeService checks that the part of examples/deposits that doc/durable.md shows is in the
// program.
func TestReadmeService(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("doc", "durable.md"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join("examples", "deposits", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```go\nfunc build(")
	part, _, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 || !strings.Contains(string(program), "func build("+part) {
		t.Errorf("doc/durable.md shows what examples/deposits/main.go does not have:\nfunc build(%s", part)
	}
}
