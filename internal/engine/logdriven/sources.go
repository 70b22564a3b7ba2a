package logdriven

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Limits of what is remembered of sources that number their records: how many, and for how long after the last record. A repeat
// that comes after its source was forgotten counts again.
const (
	mostSources  = 1_000_000
	sourcesAfter = int64(7 * 24 * time.Hour)
)

// hasMinor is the bit in the flags of a source which says that a minor number follows its number.
const hasMinor = 2

// sources holds the last record of each sender that numbers its records. Sources are forgotten by the time of steps, so that
// repeated steps forget the same ones. The edges between locations are sources, too, and are never forgotten.
//
// It maintains:
//
//  1. table contains the sources that are never forgotten, whose turn is 0, and those in the list, each once,
//  2. the list has n sources; from oldest to newest, turns increase and times do not decrease.
type sources struct {
	table          *keyed.Table[string, source]
	hash           *keyed.Hasher[string]
	oldest, newest uint32 // indexes of entries plus one; 0 if the list is empty
	turn           uint64 // number of records from sources that can be forgotten
	n, most        int
}

// A source is an entry of sources.
type source struct {
	codec.LastSeen
	at           int64  // time of the step that took its last record
	turn         uint64 // number of that record among all; see sources.turn
	older, newer uint32
}

func newSources(most int) sources {
	return sources{table: keyed.NewTable[string, source](), hash: engine.Hasher[string](), most: most}
}

// last returns the last record of a source. Its number is zero if none is known.
func (s *sources) last(name string) codec.LastSeen {
	if x := s.again(name); x != nil {
		return x.LastSeen
	}
	if x := s.table.Get(name, s.hash.Hash(name)); x != nil {
		return x.LastSeen
	}
	return codec.LastSeen{}
}

// again returns the source if the last record of all came from it, as most records of a batch do, or nil.
func (s *sources) again(name string) *source {
	if s.newest == 0 {
		return nil
	}
	if newest, x, _ := s.table.At(s.newest - 1); newest == name {
		return x
	}
	return nil
}

// set stores the last record of a source, from which a record came at now.
func (s *sources) set(name string, last codec.LastSeen, now int64) {
	if x := s.again(name); x != nil {
		s.table.Change(s.newest - 1)
		s.turn++
		x.LastSeen, x.at, x.turn = last, now, s.turn
		return
	}
	i, x, _ := s.table.PutIndex(name, s.hash.Hash(name))
	x.LastSeen, x.at = last, now
	if strings.HasPrefix(name, codec.EdgeSource) {
		return
	}
	if x.turn != 0 {
		s.unlist(x)
	}
	s.turn++
	x.turn = s.turn
	s.list(i, x)
}

// number returns the source with index n-1.
func (s *sources) number(n uint32) *source {
	_, x, _ := s.table.At(n - 1)
	return x
}

// list appends the source with index i to the list.
func (s *sources) list(i uint32, x *source) {
	x.older, x.newer = s.newest, 0
	if s.newest != 0 {
		s.number(s.newest).newer = i + 1
	} else {
		s.oldest = i + 1
	}
	s.newest = i + 1
	s.n++
}

func (s *sources) unlist(x *source) {
	if x.older != 0 {
		s.number(x.older).newer = x.newer
	} else {
		s.oldest = x.newer
	}
	if x.newer != 0 {
		s.number(x.newer).older = x.older
	} else {
		s.newest = x.older
	}
	s.n--
}

// expire forgets sources that are too old or too many.
func (s *sources) expire(now int64) {
	for s.n > 0 {
		name, x, _ := s.table.At(s.oldest - 1)
		if s.n <= s.most && now-x.at < sourcesAfter {
			return
		}
		s.unlist(x)
		s.table.Delete(name, s.hash.Hash(name))
	}
}

// state returns the state that saves the sources.
func (s *sources) state() engine.State {
	return &sourcesState{s, state.TableOf(s.table, codec.Of[string]{
		Save: func(dst []byte, _ codec.Codec, x *string) ([]byte, error) {
			return codec.AppendBytes(dst, []byte(*x)), nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *string) { *x = string(d.Bytes()) },
	}, codec.Of[source]{
		Save: func(dst []byte, _ codec.Codec, x *source) ([]byte, error) {
			flags := codec.Flag(x.Refused)
			if x.Minor != 0 {
				flags |= hasMinor
			}
			if dst = append(binary.AppendUvarint(dst, x.Number), flags); x.Minor != 0 {
				dst = binary.AppendUvarint(dst, x.Minor)
			}
			return binary.AppendUvarint(binary.AppendVarint(dst, x.at), x.turn), nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *source) {
			x.Number = d.Uint()
			flags := d.Byte()
			x.Refused = flags&1 != 0
			if flags&hasMinor != 0 {
				x.Minor = d.Uint()
			}
			x.at, x.turn = d.Int(), d.Uint()
		},
	})}
}

// A sourcesState saves the table, from which the list is rebuilt.
type sourcesState struct {
	s *sources
	engine.Numbered
}

func (x *sourcesState) Save(dst []byte, c codec.Codec) ([]byte, error) {
	return x.Numbered.Save(binary.AppendUvarint(dst, x.s.turn), c)
}

func (x *sourcesState) Load(d *codec.Decoder, c codec.Codec) {
	s, turn := x.s, d.Uint()
	if x.Numbered.Load(d, c); d.Err != nil {
		return
	}
	s.oldest, s.newest, s.n, s.turn = 0, 0, 0, turn
	type listed struct {
		i    uint32
		turn uint64
	}
	var all []listed
	next, _ := x.Count()
	for i := range next {
		if name, x, lives := s.table.At(i); !lives {
			continue
		} else if x.turn != 0 {
			all = append(all, listed{i, x.turn})
		} else if !strings.HasPrefix(name, codec.EdgeSource) {
			d.Fail()
		}
	}
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(a.turn, b.turn) })
	for _, l := range all {
		_, x, _ := s.table.At(l.i)
		s.list(l.i, x)
	}
}
