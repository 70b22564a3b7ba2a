package dataflow_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestInlined checks that operations on the run token, and the atomic loads before them, are
// inlined into the code of a port that another package instantiates; see inline.go.
func TestInlined(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("with 32 bits an atomic operation on 64 is a call, and what has one is too large")
	}
	dir := t.TempDir()
	program := `package main

import (
	"context"

	"github.com/millrace/millrace/dataflow"
)

type here struct{ dataflow.Process }

type element struct{ a, b, c string }

func main() {
	in, _ := dataflow.Input[element](dataflow.At[here](dataflow.New()), "in")
	_ = in.Send(context.Background(), element{})
}
`
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-gcflags=-m", "-o", filepath.Join(dir, "out"), file)
	said, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, call := range []string{"token.(*Token).Take", "token.(*Token).Give", "engine.(*Location).Left", "engine.(*Location).bare", "atomic.(*Bool).Load"} {
		if !strings.Contains(string(said), "inlining call to "+call) && !strings.Contains(string(said), call+"\n") {
			t.Errorf("%s is not inlined: the compiler says\n%s", call, said)
		}
	}
}
