package codec

import (
	"fmt"
	"io"
)

// A Describer writes a limited number of entries.
type Describer struct {
	W          io.Writer
	Left, More int
	Err        error
}

// Entry writes an entry, or only counts it once the limit is reached.
func (d *Describer) Entry(format string, args ...any) {
	if d.Left == 0 {
		d.More++
		return
	}
	d.Left--
	for i, v := range args {
		args[i] = shown{v}
	}
	d.Print("    "+format+"\n", args...)
}

// Print writes text, unless there was an error.
func (d *Describer) Print(format string, args ...any) {
	if d.Err == nil {
		_, d.Err = fmt.Fprintf(d.W, format, args...)
	}
}
