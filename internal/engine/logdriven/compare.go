package logdriven

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A Difference is the first difference between what two executors of one program remember.
type Difference struct {
	Operator string // with its place
	This     string // an entry of the executor, for people; empty if it has none that the other lacks
	Other    string // the same for the other executor
}

// Compare compares what two executors of one program remember, and returns nil if it is the same. It compares neither the order
// of entries nor what a description does not show. Both executors are between two steps, and belong to the caller.
func (ex *Executor) Compare(other *Executor) (*Difference, error) {
	c := ex.loc.Graph.Settings.Codec
	letters, err := ex.quarantine.Save(nil, c)
	if err != nil {
		return nil, err
	}
	others, err := other.quarantine.Save(nil, c)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(letters, others) {
		return &Difference{Operator: "the quarantine"}, nil
	}
	if d := compare("the last numbers of senders", ex.sources.state(), other.sources.state()); d != nil {
		return d, nil
	}
	for i, op := range ex.loc.Ops {
		for j, x := range op.States {
			if d := compare(op.String(), x, other.loc.Ops[i].States[j]); d != nil {
				return d, nil
			}
		}
	}
	return nil, nil
}

// compare returns the first entries that only one of two states of an operator has.
func compare(operator string, x, y engine.State) *Difference {
	a, b := described(x), described(y)
	if onlyA, onlyB := without(a, b), without(b, a); onlyA != "" || onlyB != "" {
		return &Difference{operator, onlyA, onlyB}
	}
	return nil
}

// described returns the described entries of a state, sorted.
func described(x engine.State) []string {
	var text bytes.Buffer
	x.Describe(&codec.Describer{W: &text, Left: -1})
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// without returns the first line of a that is not in b; both are sorted.
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

// AppendOutput appends the results of the output with a number, in the format of [Emission].
func AppendOutput(dst []byte, number int32, part []byte) []byte {
	return codec.AppendBytes(binary.AppendUvarint(dst, uint64(number)), part)
}
