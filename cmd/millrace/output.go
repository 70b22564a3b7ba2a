package main

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/millrace/millrace/internal/plain"
)

// stdout and stderr are the outputs for text that others may have influenced: control
// sequences for a terminal and invisible characters are spelled out. JSON goes through
// [plain.JSON] first.
var (
	stdout = plain.NewWriter(printed)
	stderr = plain.NewWriter(os.Stderr)
)

// printed is the standard output. It remembers whether something could not be written.
var printed = &output{file: os.Stdout}

// An output is a file that remembers its first error, since most commands print without looking at errors.
type output struct {
	file  *os.File
	first atomic.Pointer[error]
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if err != nil {
		o.first.CompareAndSwap(nil, &err)
	}
	return n, err
}

// succeeded returns the exit status of a command that has not failed. It is 1 if some of its output was lost.
func succeeded(name string) int {
	if err := printed.first.Load(); err != nil {
		fmt.Fprintf(stderr, "millrace %s: %v\n", name, *err)
		return 1
	}
	return 0
}
