package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A built is the module with mutants, and its test programs.
type built struct {
	root, module string
	tmp          string // for generated files
	overlay      string
	mutants      map[int]mutant // those that compile, by number
	invalid      []int
	dirs         []string // with mutants
	numbers      int      // the numbers are below this one
	budget       time.Duration
	patience     time.Duration
}

// build inserts mutants into the packages, and leaves out those that do not compile.
func build(root, module, tmp string, all map[int]mutant) (*built, error) {
	b := &built{root: root, module: module, tmp: tmp, overlay: filepath.Join(tmp, "overlay.json"), mutants: maps.Clone(all)}
	of := make(map[string]bool)
	for _, m := range all {
		of[m.dir()] = true
	}
	b.dirs, b.numbers = slices.Sorted(maps.Keys(of)), slices.Max(slices.Collect(maps.Keys(all)))+1
	for {
		if err := b.write(); err != nil {
			return nil, err
		}
		args := append([]string{"build", "-overlay", b.overlay}, b.flags()...)
		for _, dir := range b.dirs {
			args = append(args, "./"+dir)
		}
		out, err := b.command(args...).CombinedOutput()
		if err == nil {
			return b, nil
		}
		wrong := named(out)
		for _, n := range wrong {
			delete(b.mutants, n)
		}
		if b.invalid = append(b.invalid, wrong...); len(wrong) == 0 {
			return nil, fmt.Errorf("the packages with their mutants do not compile: %w\n%s", err, out)
		}
	}
}

// copied matches the numbers of mutants in messages of the compiler.
var copied = regexp.MustCompile(`(?m)^\S*\bmutant(\d+)\.go:\d+`)

// named returns the numbers of mutants that messages of the compiler name.
func named(out []byte) (all []int) {
	for _, found := range copied.FindAllSubmatch(out, -1) {
		if n, err := strconv.Atoi(string(found[1])); err == nil && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// write writes the sources with mutants, and the overlay for the go command.
func (b *built) write() error {
	replace := make(map[string]string)
	files := make(map[string]map[int]mutant)
	for n, m := range b.mutants {
		if files[m.file] == nil {
			files[m.file] = make(map[int]mutant)
		}
		files[m.file][n] = m
	}
	for file, of := range files {
		path := filepath.Join(b.root, filepath.FromSlash(file))
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, broken, err := withAll(path, src, of)
		if err != nil {
			return err
		}
		for _, n := range broken {
			delete(b.mutants, n)
		}
		b.invalid = append(b.invalid, broken...)
		if err := b.put(replace, path, changed); err != nil {
			return err
		}
	}
	for _, dir := range b.dirs {
		out, err := b.command("list", "-f", "{{.Name}}", "./"+dir).Output()
		if err != nil {
			return err
		}
		path := filepath.Join(b.root, filepath.FromSlash(dir), "mutants_of_a_run.go")
		if err := b.put(replace, path, fmt.Appendf(nil, support, bytes.TrimSpace(out), b.numbers)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(b.overlay, text, 0o600)
}

// put writes a file that replaces another one.
func (b *built) put(replace map[string]string, path string, text []byte) error {
	changed := filepath.Join(b.tmp, strings.ReplaceAll(strings.TrimPrefix(path, b.root), string(filepath.Separator), "_"))
	replace[path] = changed
	return os.WriteFile(changed, text, 0o600)
}

// flags returns flags that make the compiler report all errors in the packages with
// mutants.
func (b *built) flags() (all []string) {
	for _, dir := range b.dirs {
		all = append(all, "-gcflags="+b.module+"/"+dir+"=-e")
	}
	return all
}

// command returns a go command in the root of the module.
func (b *built) command(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = b.root
	return cmd
}

// tests builds the test program of a folder. It returns "" if the folder has no
// tests.
func (b *built) tests(dir string) (program string, err error) {
	program = filepath.Join(b.tmp, strings.ReplaceAll(dir, "/", "_")+".test")
	args := append([]string{"test", "-c", "-overlay", b.overlay, "-vet=off", "-o", program}, b.flags()...)
	out, err := b.command(append(args, "./"+dir)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: its tests do not compile with the mutants: %w\n%s", dir, err, out)
	}
	if _, err := os.Stat(program); os.IsNotExist(err) {
		return "", nil
	}
	return program, nil
}
