package history

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A Step is what one step of a location took.
type Step struct {
	Number   uint64 // among the steps of all locations
	Location int
	Start    bool  // the first step of the location
	Origin   int64 // of the first step: the wall clock at time 0, in nanoseconds since 1970
	Fire     bool  // due timers fired
	Now      int64 // nanoseconds since the origin; 0 if the time was not read
	Takes    []Take
}

// A Take is a run of records that a step took from one input.
type Take struct {
	Op   int32 // number of the operator of the input
	N    int   // number of records
	Data []byte
}

// The flags of a step.
const (
	flagStart = 1 << iota
	flagFire
	flagTimed

	flagsKnown = flagStart | flagFire | flagTimed
)

// blockSize is the length to which a block of steps grows.
const blockSize = 64 << 10

// A block is the payload of a frame of steps of one location.
type block struct {
	data   []byte
	number uint64 // of its last step
	now    int64  // of its last step with a time
	steps  int
}

// add appends a step. Only add encodes steps.
func (b *block) add(s *Step) {
	if b.steps == 0 {
		b.data = binary.AppendUvarint(b.data[:0], uint64(s.Location))
		b.number, b.now = 0, 0
	}
	var flags byte
	if s.Start {
		flags |= flagStart
	}
	if s.Fire {
		flags |= flagFire
	}
	if s.Now != 0 {
		flags |= flagTimed
	}
	dst := append(binary.AppendUvarint(b.data, s.Number-b.number), flags)
	if s.Start {
		dst = binary.AppendVarint(dst, s.Origin)
	}
	if s.Now != 0 {
		dst = binary.AppendVarint(dst, s.Now-b.now)
		b.now = s.Now
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Takes)))
	for i := range s.Takes {
		t := &s.Takes[i]
		dst = binary.AppendUvarint(dst, uint64(t.Op))
		dst = binary.AppendUvarint(dst, uint64(t.N))
		dst = codec.AppendBytes(dst, t.Data)
	}
	b.data, b.number = dst, s.Number
	b.steps++
}

// decodeBlock reads a block. It copies the data of the steps.
func decodeBlock(payload []byte, locations int, each func(*Step) error) error {
	d := &codec.Decoder{Data: payload}
	at := d.Uint()
	if d.Err != nil || at >= uint64(locations) {
		return fmt.Errorf("the frame has steps of location %d, and there are %d", at, locations)
	}
	var number uint64
	var now int64
	for n := 0; len(d.Data) > 0; n++ {
		before := number
		number += d.Uint()
		if n > 0 && number <= before {
			return fmt.Errorf("step %d of the frame does not come after the one before", n)
		}
		flags := d.Byte()
		s := &Step{Number: number, Location: int(at), Start: flags&flagStart != 0, Fire: flags&flagFire != 0}
		if flags&^flagsKnown != 0 {
			return fmt.Errorf("step %d has the unknown flags %#x: it was written by a later version", number, flags)
		}
		if s.Start {
			s.Origin = d.Int()
		}
		if flags&flagTimed != 0 {
			now += d.Int()
			s.Now = now
		}
		if s.Now < 0 || s.Fire && s.Now == 0 {
			return fmt.Errorf("step %d has the time %d", number, s.Now)
		}
		if err := s.takes(d); err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

// takes reads the takes of a step.
func (s *Step) takes(d *codec.Decoder) error {
	for range d.Count() {
		op, n, data := d.Uint(), d.Uint(), d.Bytes()
		switch {
		case d.Err != nil:
			return fmt.Errorf("step %d ends within its frame", s.Number)
		case op > 1<<31-1:
			return fmt.Errorf("step %d takes of operator %d", s.Number, op)
		case n == 0 || n > max(uint64(len(data)), 1):
			return fmt.Errorf("step %d takes %d records of operator %d in %d bytes", s.Number, n, op, len(data))
		}
		s.Takes = append(s.Takes, Take{int32(op), int(n), slices.Clone(data)})
	}
	if d.Err != nil {
		return fmt.Errorf("step %d ends within its frame", s.Number)
	}
	return nil
}
