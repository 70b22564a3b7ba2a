package logdriven

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine/codec"
)

// What is remembered of sources that number their records: so many, and those of which nothing
// came for so long are forgotten. A repeat counts again then. Source: store study 10.
const (
	mostSources  = 1_000_000
	sourcesAfter = int64(7 * 24 * time.Hour)
)

// Sources have the last record of each sender that numbers its records. A source is forgotten by
// the time of steps, so that steps made again forget the same. The edges between locations are
// sources, too, and are never forgotten.
//
// It maintains:
//
//  1. by has those that are never forgotten, and each of the list once,
//  2. the list has n sources, and its times do not go back from oldest to newest.
type sources struct {
	by             map[string]*source
	oldest, newest *source
	n, most        int
}

// A source is one of those.
type source struct {
	codec.LastSeen
	name         string
	at           int64 // time of the step in which something came of it last
	older, newer *source
	listed       bool
}

func newSources(most int) sources { return sources{by: make(map[string]*source), most: most} }

// last returns the last record of a source, whose number is zero if none is known.
func (s *sources) last(name string) codec.LastSeen {
	if x := s.by[name]; x != nil {
		return x.LastSeen
	}
	return codec.LastSeen{}
}

// set remembers the last record of a source, of which something came at now.
func (s *sources) set(name string, last codec.LastSeen, now int64) {
	x := s.by[name]
	if x == nil {
		x = &source{name: name}
		s.by[name] = x
	}
	x.LastSeen, x.at = last, now
	if strings.HasPrefix(name, codec.EdgeSource) {
		return
	}
	if x.listed {
		s.unlist(x)
	}
	x.older, x.newer, x.listed = s.newest, nil, true
	if s.newest != nil {
		s.newest.newer = x
	} else {
		s.oldest = x
	}
	s.newest = x
	s.n++
}

func (s *sources) unlist(x *source) {
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		s.oldest = x.newer
	}
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		s.newest = x.older
	}
	x.listed = false
	s.n--
}

// expire forgets what is too old or too much at a time.
func (s *sources) expire(now int64) {
	for s.n > s.most || s.n > 0 && now-s.oldest.at >= sourcesAfter {
		delete(s.by, s.oldest.name)
		s.unlist(s.oldest)
	}
}

// save appends all: those that are never forgotten by name, and the others from the oldest on.
func (s *sources) save(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.by)))
	var lasting []string
	for name, x := range s.by {
		if !x.listed {
			lasting = append(lasting, name)
		}
	}
	slices.Sort(lasting)
	for _, name := range lasting {
		dst = s.by[name].save(dst)
	}
	for x := s.oldest; x != nil; x = x.newer {
		dst = x.save(dst)
	}
	return dst
}

func (x *source) save(dst []byte) []byte {
	dst = codec.AppendBytes(dst, []byte(x.name))
	dst = binary.AppendUvarint(dst, x.Number)
	dst = append(dst, codec.Flag(x.Refused))
	return binary.AppendVarint(dst, x.at)
}

// load is the inverse of save.
func (s *sources) load(d *codec.Decoder) {
	*s = newSources(s.most)
	for range d.Count() {
		name := string(d.Bytes())
		last := codec.LastSeen{Number: d.Uint(), Refused: d.Byte() == 1}
		at := d.Int()
		if d.Err != nil {
			return
		}
		s.set(name, last, at)
	}
}
