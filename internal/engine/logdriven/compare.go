package logdriven

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A Difference is the first thing that two executors of one program remember differently.
type Difference struct {
	Operator string // with its place
	This     string // an entry for people, of the executor; empty if it has none that the other has not
	Other    string // the same of the other one
}

// Compare compares what two executors of one program remember, and returns nil if that is the
// same. The order of entries is not compared, nor what a description does not show. Both are
// between two steps, and belong to the caller.
func (l *Executor) Compare(other *Executor) (*Difference, error) {
	switch {
	case !bytes.Equal(l.sources.save(nil), other.sources.save(nil)):
		return &Difference{Operator: "the last numbers of senders"}, nil
	case !bytes.Equal(l.quarantine.save(nil), other.quarantine.save(nil)):
		return &Difference{Operator: "the quarantine"}, nil
	}
	c := l.loc.Graph.Settings.Codec
	for i, op := range l.loc.Ops {
		for j, x := range op.States {
			y := other.loc.Ops[i].States[j]
			this, err := x.Save(nil, c)
			if err != nil {
				return nil, err
			}
			that, err := y.Save(nil, c)
			if err != nil {
				return nil, err
			}
			if bytes.Equal(this, that) {
				continue
			}
			a, b := described(x), described(y)
			if onlyA, onlyB := without(a, b), without(b, a); onlyA != "" || onlyB != "" {
				return &Difference{op.String(), onlyA, onlyB}, nil
			}
		}
	}
	return nil, nil
}

// described returns the entries of a state in an order of their own.
func described(x interface{ Describe(*codec.Describer) }) []string {
	var text bytes.Buffer
	x.Describe(&codec.Describer{W: &text, Left: -1})
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// without returns the first line of a that is not in b, both in order.
func without(a, b []string) string {
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0], b[0]); {
		case c == 0:
			a, b = a[1:], b[1:]
		case c < 0:
			return strings.TrimSpace(a[0])
		default:
			b = b[1:]
		}
	}
	if len(a) > 0 {
		return strings.TrimSpace(a[0])
	}
	return ""
}

// AppendOutput appends what an output with a number gave, in the form of [Emission].
func AppendOutput(dst []byte, number int32, part []byte) []byte {
	return codec.AppendBytes(binary.AppendUvarint(dst, uint64(number)), part)
}
