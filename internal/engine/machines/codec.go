package machines

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
)

// lifeCodec returns the codec of what a machine holds for a key.
func lifeCodec[S any](stateCodec func(*engine.Op) codec.Of[S]) func(*engine.Op) codec.Of[life[S]] {
	return func(op *engine.Op) codec.Of[life[S]] {
		state := stateCodec(op)
		return codec.Of[life[S]]{
			Kind: "life " + state.Kind,
			Save: func(dst []byte, c codec.Codec, x *life[S]) ([]byte, error) {
				dst = binary.AppendUvarint(append(dst, codec.Flag(x.decided)), uint64(x.timer))
				return state.Save(dst, c, &x.state)
			},
			Load: func(d *codec.Decoder, c codec.Codec, x *life[S]) {
				x.decided, x.timer = d.Byte() == 1, uint16(d.Uint())
				state.Load(d, c, &x.state)
			},
		}
	}
}

// calledCodec returns the codec of the state of a key of a machine that makes calls.
func calledCodec[S any](op *engine.Op) codec.Of[called[S]] {
	plain := state.Plain[S](op)
	return codec.Of[called[S]]{
		Kind: "calling " + plain.Kind,
		Save: func(dst []byte, c codec.Codec, x *called[S]) ([]byte, error) {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, x.number), uint64(x.calls))
			return plain.Save(binary.AppendUvarint(dst, uint64(x.open)), c, &x.state)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *called[S]) {
			x.number, x.calls, x.open = d.Uint(), uint32(d.Uint()), uint32(d.Uint())
			plain.Load(d, c, &x.state)
		},
	}
}

// timerIDCodec returns the codec of the name of a timer.
func timerIDCodec(*engine.Op) codec.Of[timerID] {
	return codec.Of[timerID]{
		Kind: "timer of a life",
		Save: func(dst []byte, _ codec.Codec, x *timerID) ([]byte, error) {
			return append(binary.AppendUvarint(dst, uint64(x.life())), x.id()), nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *timerID) {
			life := uint32(d.Uint())
			*x = timerIDOf(life, d.Byte())
		},
	}
}

// nextCodec returns the codec of the link from a timer to the next one.
func nextCodec(*engine.Op) codec.Of[uint16] {
	return codec.Of[uint16]{
		Kind: "next timer",
		Save: func(dst []byte, _ codec.Codec, x *uint16) ([]byte, error) {
			return binary.AppendUvarint(dst, uint64(*x)), nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *uint16) { *x = uint16(d.Uint()) },
	}
}
