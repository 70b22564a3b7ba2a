package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// reached are lines that tests reach, as the file and the line.
type reached map[string]bool

// reaches reports whether tests reach the line of a mutant.
func (r reached) reaches(m mutant) bool { return r[fmt.Sprint(m.file, ":", m.line)] }

// cover runs the tests of a folder as it is, which have to pass, and returns the lines that
// they reach.
func cover(root, dir string) (reached, error) {
	tmp, err := os.MkdirTemp("", "cover")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	profile := filepath.Join(tmp, "profile")
	cmd := exec.Command("go", "test", "-vet=off", "-coverprofile", profile, "./"+dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: the tests fail without any mutant: %w\n%s", dir, err, out)
	}
	text, err := os.ReadFile(profile)
	if os.IsNotExist(err) { // there are no tests
		return reached{}, nil
	} else if err != nil {
		return nil, err
	}
	return profiled(dir, text)
}

// profiled reads a profile of the coverage of a folder.
func profiled(dir string, text []byte) (reached, error) {
	all := make(reached)
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("mode:")) {
			continue
		}
		at := strings.LastIndexByte(string(line), ':')
		if at < 0 {
			return nil, fmt.Errorf("a line of the coverage is %q", line)
		}
		var from, to, column, statements, count int
		if _, err := fmt.Sscanf(string(line[at+1:]), "%d.%d,%d.%d %d %d", &from, &column, &to, &column, &statements, &count); err != nil {
			return nil, fmt.Errorf("a line of the coverage is %q: %w", line, err)
		}
		if count == 0 {
			continue
		}
		file := string(line[:at])
		for n := from; n <= to; n++ {
			all[fmt.Sprint(dir, "/", file[strings.LastIndexByte(file, '/')+1:], ":", n)] = true
		}
	}
	return all, nil
}
