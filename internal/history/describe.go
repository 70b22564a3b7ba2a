package history

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/internal/cbor"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Describe writes a step for people: a line for the step, followed by a line for each record
// that it took. The values are in the diagnostic notation of CBOR. At most most records are
// written.
func (h *Header) Describe(w io.Writer, s *Step, most int) error {
	l := &h.Locations[s.Location]
	what := ""
	if s.Start {
		what += ", starts at " + time.Unix(0, s.Origin).UTC().Format(time.RFC3339Nano)
	}
	if s.Fire {
		what += ", fires timers"
	}
	at := ""
	if s.Now != 0 {
		at = " at " + time.Duration(s.Now).String()
	}
	if _, err := fmt.Fprintf(w, "step %d of %s%s%s\n", s.Number, oneLine(l.Location), at, what); err != nil {
		return err
	}
	left := most
	for _, t := range s.Takes {
		op, keyed := fmt.Sprintf("operator %d", t.Op), false
		if int(t.Op) < len(l.Ops) {
			op, keyed = oneLine(l.Ops[t.Op].Name), len(l.Ops[t.Op].Takes) == 2
		}
		d := &codec.Decoder{Data: t.Data}
		for i := range t.N {
			if left == 0 {
				if _, err := fmt.Fprintf(w, "  %s: %d more\n", op, t.N-i); err != nil {
					return err
				}
				break
			}
			if left--; len(t.Data) == 0 {
				if _, err := fmt.Fprintf(w, "  %s: the end\n", op); err != nil {
					return err
				}
				break
			}
			text := show(d.Bytes())
			if keyed {
				text += ": " + show(d.Bytes())
			}
			if d.Err != nil {
				return fmt.Errorf("history: step %d: record %d of %s is damaged", s.Number, i, op)
			}
			if _, err := fmt.Fprintf(w, "  %s: %s\n", op, text); err != nil {
				return err
			}
		}
		if left != 0 && len(d.Data) > 0 {
			return fmt.Errorf("history: step %d: the records of %s have %d bytes too many", s.Number, op, len(d.Data))
		}
	}
	return nil
}

// show formats an encoded value for people.
func show(data []byte) string {
	if text, rest, err := cbor.Diagnose(data); err == nil && len(rest) == 0 {
		return oneLine(text)
	}
	return fmt.Sprintf("h'%x'", data)
}

// oneLine returns s on one line: quoted if it contains control characters.
func oneLine(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}
