package durable

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/identity"
)

// The history has the fields of structs by their names in Go, and the state by their names in the encoding. So if a
// tag has changed, only the state shows it: it has a field that the program does not have. The content of the field
// would be lost without a word.

// An exact is a codec for loading state, in which a field that the program does not have is an error.
type exact struct {
	Codec
	decode func(data []byte, p any) error
}

func (x exact) Decode(data []byte, p any) error { return x.decode(data, p) }

// Written implements [codec.Reader].
func (x exact) Written() codec.Codec { return x.Codec }

// exactly returns a function like reads that returns the codecs for loading state. State that an earlier program has
// saved may have fields that were dropped since.
func (o *owner) exactly(next *identity.Shape, lines identity.Lines, reads func(int32) codec.Codec) func(int32) codec.Codec {
	by, ok := o.opts.Codec.(interface {
		DecodeExact(data []byte, p any) error
	})
	if !ok || o.program.other && !o.program.changed {
		return reads
	}
	dropped := make(map[string]bool)
	for line := range lines.DropFields {
		dropped[line[0]] = true
	}
	lenient := make(map[int32]bool)
	for _, x := range next.Operators {
		lenient[x.Index] = dropped[x.Identity] || dropped[next.Location+"/"+x.Identity]
	}
	return func(op int32) codec.Codec {
		if reads != nil {
			if c := reads(op); c != nil {
				return c
			}
		}
		if lenient[op] {
			return nil
		}
		return exact{o.opts.Codec, by.DecodeExact}
	}
}

// unloadable returns the error for state that cannot be loaded from the pieces that what names.
func (o *owner) unloadable(what string, err error) error {
	if errors.As(err, new(*cbor.UnknownFieldError)) {
		return fmt.Errorf("%w: %s: %w: if the tag of a field has changed, change it back, or give the type another name and declare a durable.Convert; durable.DropField forgets the field",
			ErrChanged, o.executor.Location().Name, err)
	}
	return o.damaged("its state%s: %v", what, err)
}
