package history

import (
	"bufio"
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/cbor"
)

// A Reader reads a file. It must be used by one goroutine.
type Reader struct {
	frames
	header  Header
	end     *End
	steps   uint64
	started []bool   // locations whose first step was read
	last    []uint64 // number of the last step of each location
	note    string
}

// NewReader reads the header and returns a Reader. An error is an [*Error], or the error of r.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{frames: frames{r: bufio.NewReader(r)}}
	if err := x.begin(); err != nil {
		return nil, err
	}
	kind, payload, err := x.frame()
	switch {
	case err == errCut || err == io.EOF:
		return nil, x.bad("the file ends within its header: nothing of the run is in it")
	case err != nil:
		return nil, err
	case kind != kindHeader:
		return nil, x.bad("the first frame is of kind %d and no header", kind)
	}
	if err := (cbor.Codec{}).Decode(payload, &x.header); err != nil {
		return nil, x.bad("the header cannot be read: %v", err)
	}
	switch h := &x.header; {
	case h.Format != format:
		return nil, x.bad("the history is of format %d, and this version knows %d", h.Format, format)
	case h.Codec != codecName:
		return nil, x.bad("the values are encoded as %q, and this version knows %q", h.Codec, codecName)
	}
	x.started = make([]bool, len(x.header.Locations))
	x.last = make([]uint64, len(x.header.Locations))
	return x, nil
}

// Header returns the header.
func (x *Reader) Header() *Header { return &x.header }

// End returns the last frame, or nil if the file has none. It is valid after [Reader.Block] has
// returned io.EOF.
func (x *Reader) End() *End { return x.end }

// Note says how a truncated file ends, or returns "". It is valid after [Reader.Block] has
// returned io.EOF.
func (x *Reader) Note() string { return x.note }

// Steps returns the number of steps that were read.
func (x *Reader) Steps() uint64 { return x.steps }

// Offset returns the offset of the last frame that was read.
func (x *Reader) Offset() int64 { return x.at }

// Block reads the next frame and calls each for its steps, in order. Steps of other frames may
// have numbers between them. Block returns io.EOF after the last step, the first error of each, or
// an [*Error].
func (x *Reader) Block(each func(*Step) error) error {
	kind, payload, err := x.frame()
	switch {
	case x.end != nil && err == io.EOF:
		return io.EOF
	case x.end != nil:
		return x.bad("something follows the last frame: %s", otherCopy)
	case err == io.EOF:
		x.note = fmt.Sprintf("the file ends at byte %d without its last frame: the run went on, or the program was killed", x.at)
		return io.EOF
	case err == errCut:
		x.note = fmt.Sprintf("the frame at byte %d is cut off, at byte %d, and was left out", x.at, x.next)
		return io.EOF
	case err != nil:
		return err
	}
	switch kind {
	case kindSteps:
		var failed error
		err := decodeBlock(payload, len(x.header.Locations), func(s *Step) error {
			if err := x.follows(s); err != nil {
				return err
			}
			x.steps++
			failed = each(s)
			return failed
		})
		if err != nil && failed == nil {
			return x.bad("%v", err)
		}
		return failed
	case kindEnd:
		var e End
		if err := (cbor.Codec{}).Decode(payload, &e); err != nil {
			return x.bad("the last frame cannot be read: %v", err)
		}
		if x.end = &e; e.Steps != x.steps {
			return x.bad("there are %d steps, and the last frame says %d: %s", x.steps, e.Steps, otherCopy)
		}
		return nil
	}
	return x.bad("the frame is of kind %d, which this version does not know", kind)
}

// follows returns an error if s cannot be the next step of its location.
func (x *Reader) follows(s *Step) error {
	name := x.header.Locations[s.Location].Location
	switch started := x.started[s.Location]; {
	case !started && !s.Start:
		return fmt.Errorf("step %d of %s comes before its first one: a frame is missing", s.Number, name)
	case started && s.Start:
		return fmt.Errorf("step %d of %s is a second first one", s.Number, name)
	case started && s.Number <= x.last[s.Location]:
		return fmt.Errorf("step %d of %s comes behind step %d", s.Number, name, x.last[s.Location])
	}
	x.started[s.Location], x.last[s.Location] = true, s.Number
	return nil
}

// All calls each for all steps. After that, End and Note are valid.
func (x *Reader) All(each func(*Step) error) error {
	for {
		switch err := x.Block(each); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
