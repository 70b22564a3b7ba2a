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

// A result is a line of a file of results. It is valid while the file of the mutant is unchanged.
type result struct {
	Mutant  string
	Source  string // a digest of the file
	Outcome string
	By      string `json:",omitempty"` // what killed it
}

// results are the results of earlier runs, with a file to which new ones are added.
type results struct {
	known map[string]result
	file  *os.File // nil for none
}

// openResults reads a file of results, if it exists, and opens it for appending. It ignores an
// incomplete last line, which an interrupted run may leave. With an empty name there is no file.
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

// of returns the known result of a mutant of a source, if it still applies: a killed mutant stays
// killed when tests are added, and one that does not compile stays invalid.
func (r *results) of(m mutant, src []byte) (x result, ok bool) {
	x, ok = r.known[m.name()]
	return x, ok && x.Source == digest(src) && (x.Outcome == killed.String() || x.Outcome == invalid.String())
}

// add appends a result to the file.
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

// digest returns a digest of a source, for comparison.
func digest(src []byte) string {
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:8])
}
