// Package millrace_test keeps the README true.
package millrace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeProgram runs the program of the README and compares what it prints with
// what the README says it prints.
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

// TestReadmeService compares the part of examples/deposits that the README shows with the
// program.
func TestReadmeService(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join("examples", "deposits", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\nfunc build(")
	part, _, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 || !strings.Contains(string(program), "func build("+part) {
		t.Errorf("the README shows what examples/deposits/main.go does not have:\nfunc build(%s", part)
	}
}
