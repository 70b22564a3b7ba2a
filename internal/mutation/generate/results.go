package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// A result is a line of a file of results. It holds for as long as the file of the mutant
// stays as it is.
type result struct {
	Mutant  string
	Source  string // a digest of the file
	Outcome string
	By      string `json:",omitempty"` // what killed it
}

// results are those of earlier runs, with a file to which more are added.
type results struct {
	known map[string]result
	file  *os.File // nil for none
}

// openResults reads a file of results, if it is there, and adds to it. A last line that was cut off,
// since a run was interrupted, is left out. No name is no file.
func openResults(name string) (*results, error) {
	r := &results{known: make(map[string]result)}
	if name == "" {
		return r, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	var whole int64
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		var x result
		if err := json.Unmarshal(line, &x); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %q is no result: %w", name, line, err), f.Close())
		}
		r.known[x.Mutant] = x
		whole += int64(len(line))
	}
	if err := f.Truncate(whole); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.file = f
	return r, nil
}

// of returns what is known of a mutant of a source, if that cannot be different now: what was killed
// stays so while tests are added, and what does not compile as well.
func (r *results) of(m mutant, src []byte) (x result, ok bool) {
	x, ok = r.known[m.name()]
	return x, ok && x.Source == digest(src) && (x.Outcome == killed.String() || x.Outcome == invalid.String())
}

// add keeps a result.
func (r *results) add(m mutant, src []byte, what outcome, by string) error {
	if r.file == nil {
		return nil
	}
	line, err := json.Marshal(result{m.name(), digest(src), what.String(), by})
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func (r *results) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// digest says whether two sources are the same.
func digest(src []byte) string {
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:8])
}
