package history

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/engine"
)

// format is the version of the contents of frames.
const format = 1

// codecName is the codec of the values.
const codecName = "cbor"

// A Header describes the flow of a history.
type Header struct {
	Format    int            `json:"format"`
	Module    string         `json:"module"`             // version of this library that wrote it, if it is known
	Revision  string         `json:"revision,omitempty"` // of the program's source, if it is known
	Codec     string         `json:"codec"`              // of the values
	Locations []engine.Shape `json:"locations"`
}

// NewHeader returns the header for a flow with these shapes.
func NewHeader(shapes []engine.Shape) *Header {
	h := &Header{Format: format, Codec: codecName, Locations: shapes}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return h
	}
	const path = "github.com/millrace/millrace"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path {
			h.Module = m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			h.Revision = s.Value
		}
	}
	return h
}

// An End says how a run ended.
type End struct {
	Steps    uint64 `json:"steps"`
	Complete bool   `json:"complete"`         // the flow had ended when the history did
	Failed   string `json:"failed,omitempty"` // why the flow failed, or empty
}

// A Writer writes a file. It may be used by one goroutine at a time.
type Writer struct {
	w   io.Writer
	n   int64
	buf []byte
	err error
}

// NewWriter returns a writer that has written the header.
func NewWriter(w io.Writer, h *Header) (*Writer, error) {
	x := &Writer{w: w}
	payload, err := cbor.Codec{}.Append(nil, *h)
	if err != nil {
		return x, err
	}
	x.write(appendFrame([]byte(magic), kindHeader, payload))
	return x, x.err
}

// Written returns the number of bytes written.
func (x *Writer) Written() int64 { return x.n }

func (x *Writer) write(b []byte) {
	if x.err != nil {
		return
	}
	n, err := x.w.Write(b)
	if n < 0 || n > len(b) {
		n, err = 0, errors.New("history: the writer said that it has written what it was not given")
	}
	if x.n += int64(n); err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	x.err = err
}

// block writes the steps of a block, if there are any, and empties it. After an error it writes
// nothing.
func (x *Writer) block(b *block) error {
	if b.steps == 0 {
		return x.err
	}
	if len(b.data) > MaxFrame && x.err == nil {
		x.err = fmt.Errorf("history: step %d takes %d bytes, more than the %d of a frame", b.number, len(b.data), MaxFrame)
	}
	x.buf = appendFrame(x.buf[:0], kindSteps, b.data)
	x.write(x.buf)
	b.data, b.steps = b.data[:0], 0
	return x.err
}

// End writes the last frame.
func (x *Writer) End(e End) error {
	payload, err := cbor.Codec{}.Append(nil, e)
	if err != nil {
		return err
	}
	x.write(appendFrame(nil, kindEnd, payload))
	return x.err
}
