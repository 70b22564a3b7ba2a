// Command generate breaks the library in many small ways and says which of them its tests notice.
//
//	go run ./internal/mutation/generate -n 300                    a sample of everything
//	go run ./internal/mutation/generate -in internal/keyed -n 0   all of one folder
//
// A mutant is one change to one function: a condition is negated, < becomes <=, && becomes ||, a
// statement or a case is dropped, two statements change places, a number is one more or less, or a
// function returns before its last statement. Texts of errors and what only prints are left
// alone. The sample is chosen by a hash of the file, the function, the operator and the
// number of the mutant, so that it is the same one each time.
//
// A mutant is killed if the tests of its folder fail or do not end, or survives; it is uncovered,
// which counts as survived, if those tests do not reach its line. One that nobody can tell from
// the original is listed in equivalent.txt, with a reason. The command fails if a mutant
// survives that is not listed there, or if one is killed that is.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// folders are those with mutants, from the root of the module.
var folders = []string{
	"internal/keyed", "internal/timer", "internal/engine/...", "dataflow/...", "agentproto",
}

func main() {
	n := flag.Int("n", 300, "how many mutants to try; 0 tries all")
	in := flag.String("in", strings.Join(folders, ","), "folders with commas between them; those below one with /... at its end")
	flag.Parse()
	if err := run(*n, strings.Split(*in, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries mutants and prints what came of each, and a table.
func run(n int, in []string) error {
	root, dirs, err := list(in)
	if err != nil {
		return err
	}
	equivalent, err := equivalents(equivalentText)
	if err != nil {
		return err
	}
	var all []mutant
	for _, dir := range dirs {
		of, err := mutants(root, dir)
		if err != nil {
			return err
		}
		all = append(all, of...)
	}
	covered := make(map[string]reached)
	scores := make(map[string]*score)
	wrong := 0
	for _, m := range sample(all, n) {
		dir := filepath.ToSlash(filepath.Dir(m.file))
		if covered[dir] == nil {
			if covered[dir], err = cover(root, dir); err != nil {
				return err
			}
			scores[dir] = new(score)
		}
		what, err := try(root, m, covered[dir])
		if err != nil {
			return err
		}
		if _, listed := equivalent[m.name()]; listed && what == survived {
			what = same
		} else if listed && what == killed || what == survived || what == uncovered {
			wrong++
		}
		scores[dir][what]++
		fmt.Printf("%-12s %s:%d %s %s %d: %q\n", what, m.file, m.line, m.fn, m.operator, m.ordinal, m.text)
	}
	fmt.Print(table(dirs, scores))
	if wrong > 0 {
		return fmt.Errorf("%d mutants survive and are not listed as equivalent, or are listed and killed", wrong)
	}
	return nil
}

// list returns the root of the module and the folders of packages.
func list(in []string) (root string, dirs []string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}\n{{.Path}}").Output()
	if err != nil {
		return "", nil, fmt.Errorf("there is no module here: %w", err)
	}
	root, module, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	args := []string{"list"}
	for _, dir := range in {
		args = append(args, "./"+dir)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if out, err = cmd.Output(); err != nil {
		return "", nil, err
	}
	for p := range strings.Lines(string(out)) {
		dirs = append(dirs, strings.TrimPrefix(strings.TrimSpace(p), module+"/"))
	}
	return root, dirs, nil
}

// equivalents reads a list of mutants, each with a reason behind a colon.
func equivalents(text string) (map[string]string, error) {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, ": ")
		if !ok || why == "" || all[name] != "" {
			return nil, fmt.Errorf("equivalent.txt: %q: want the name of a mutant, a colon and a reason, once", line)
		}
		all[name] = why
	}
	return all, nil
}

// try applies a mutant and runs the tests of its folder, if they reach it.
func try(root string, m mutant, covered reached) (what outcome, err error) {
	if !covered.reaches(m) {
		return uncovered, nil
	}
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return invalid, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	path := filepath.Join(root, filepath.FromSlash(m.file))
	src, err := os.ReadFile(path)
	if err != nil {
		return invalid, err
	}
	changed, overlay := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return invalid, err
	}
	if err := errors.Join(os.WriteFile(changed, m.apply(src), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return invalid, err
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout=2m", "./"+filepath.ToSlash(filepath.Dir(m.file)))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, &exit):
		return invalid, err
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return invalid, nil
	}
	return killed, nil
}
