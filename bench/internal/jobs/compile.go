package jobs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/bench/internal/ratio"
)

// compiledOperators is the number of pairs of operators in a compiled program.
const compiledOperators = 100

// Compile is the cost of a program that uses KeyBy and First on a hundred types: the processor time of go
// build for its package and the linker, and the additional bytes of the binary, compared with a program
// without these operators. A figure is that of one pair. Everything else is in the build cache.
func Compile() []Job {
	return []Job{{
		Name: "Compile", Params: fmt.Sprintf("operators=%d", compiledOperators), CPU: true, Rounds: 1, Slow: true,
		Targets: []Target{{What: More, AtMost: 80e6}, {What: Held, AtMost: 30_000}},
		Impls: []ratio.Impl{
			{Name: "none", New: func() ratio.Run { return compile(0) }},
			{Name: "millrace", New: func() ratio.Run { return compile(compiledOperators) }},
		},
	}}
}

// compile builds a program with the given number of pairs of operators.
func compile(pairs int) ratio.Run {
	dir, err := os.MkdirTemp("", "millrace-compile-")
	must(err)
	_, err = build(dir, 0, "once") // afterwards all its imports are in the cache
	must(err)
	return ratio.Run{
		Children: true,
		Do: func() int {
			_, err := build(dir, pairs, dir)
			must(err)
			return compiledOperators
		},
		Left: func() float64 {
			with, err := build(dir, pairs, dir)
			must(err)
			without, err := build(dir, 0, dir)
			must(err)
			return float64(with - without)
		},
		Close: func() { must(os.RemoveAll(dir)) },
	}
}

// build builds the program and returns the size of the binary. A different remark makes it a different
// program for the build cache.
func build(dir string, pairs int, remark string) (int64, error) {
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return 0, err
	}
	// The compiler sees the program as part of this module.
	at := filepath.Join(filepath.Dir(strings.TrimSpace(string(root))), "cmd", "compiled", "main.go")
	file, overlay, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{at: file}})
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, []byte(program(pairs, remark)), 0o644); err != nil {
		return 0, err
	}
	if err := os.WriteFile(overlay, replace, 0o644); err != nil {
		return 0, err
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./cmd/compiled")
	cmd.Dir = filepath.Dir(filepath.Dir(filepath.Dir(at)))
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// program returns a program with the given number of pairs of KeyBy and First, each on a type of its own
// size.
func program(pairs int, remark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\npackage main\n\nimport (\n\t\"context\"\n\n\t\"github.com/millrace/millrace/dataflow\"\n", remark)
	if pairs > 0 {
		b.WriteString("\t\"github.com/millrace/millrace/keyedsingleton\"\n\t\"github.com/millrace/millrace/keyedstream\"\n")
	}
	b.WriteString(`)

type here struct{ dataflow.Process }

func main() {
	f := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[here](f), "in")
	sum := 0
	dataflow.ForEach(xs, func(x int) { sum += x })
`)
	for i := range pairs {
		fmt.Fprintf(&b, "\tkeyedsingleton.Inspect(keyedstream.First(dataflow.KeyBy(xs, func(int) t%d { return t%[1]d{} })), func(int) { sum++ })\n", i)
	}
	b.WriteString(`	app, err := dataflow.Start(context.Background(), f)
	if err != nil {
		panic(err)
	}
	in.Send(context.Background(), 1)
	app.Stop(context.Background())
	println(sum)
}
`)
	for i := range pairs {
		fmt.Fprintf(&b, "\ntype t%d struct {\n\ta [%d]uint16\n\tb uint64\n}\n", i, i+1)
	}
	return b.String()
}
