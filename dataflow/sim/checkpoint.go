package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// checkpointEvery is the interval at which an unfinished search is saved.
const checkpointEvery = 10 * time.Second

// A checkpoint is an unfinished search in a file: the branches that are left, the state that is
// needed to continue there, and the digests of the schedules that were found.
type checkpoint struct {
	Format   string
	Program  string // digest of the executable
	Function string // the function under test
	First    savedFirst
	Whole    bool
	Begun    int
	Distinct []uint64
	Known    simulate.Known
	Tree     savedBranch
	Outputs  []savedOutput
	Unknown  map[string]string // claims that could not be checked
	Counts   counts            // of a specification
}

const checkpointFormat = "millrace search 4"

// savedFirst describes the first schedule of a function. It tells functions with the same name
// apart.
type savedFirst struct {
	Shown   uint64
	Choices int
}

type savedPlace struct {
	Moves    []simulate.Name
	Among    int
	Next     int
	Timed    bool
	Usual    int64
	Asleep   []savedAsleep
	Back     []bool
	Branches []savedBranch
}

type savedBranch struct {
	Index   int
	Time    int64
	State   state
	Effect  *simulate.Effect
	Inner   bool
	Events  []savedEvent
	Pending [][]savedAddition
	Behind  *savedPlace
}

type savedAsleep struct {
	Name   simulate.Name
	Effect simulate.Effect
}

type savedEvent struct {
	Effect      simulate.Effect
	Place, Last int
	Before      []uint64
}

type savedAddition struct {
	Depth int
	Heads []simulate.Name
	Time  int64
}

type savedOutput struct {
	Number    int
	Name, Pos string
	Read      bool
	Unread    int
	Blocked   string
}

// program returns a digest of the executable.
var program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
})

// identity returns the part of a checkpoint that identifies the program to which it belongs.
func (s *search) identity() (c checkpoint, err error) {
	c = checkpoint{Format: checkpointFormat, Whole: s.options.whole}
	if p := s.x.plan; p != nil {
		c.Function = p.named
	} else {
		c.Function = runtime.FuncForPC(reflect.ValueOf(s.x.f).Pointer()).Name()
	}
	if c.Program, err = program(); err != nil {
		return c, err
	}
	first := s.x.execute(new(script), nil)
	c.First = savedFirst{first.shown, len(first.made)}
	return c, nil
}

// resume continues from the checkpoint file of the options, if it exists.
func (s *search) resume() error {
	if s.options.checkpoint == "" {
		return nil
	}
	own, err := s.identity()
	if err != nil {
		return err
	}
	s.saved, s.own = time.Now(), own
	data, err := os.ReadFile(s.options.checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var c checkpoint
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&c); err != nil || c.Format != checkpointFormat {
		return fmt.Errorf("%s is no checkpoint of this version: %v; delete it to begin anew", s.options.checkpoint, err)
	}
	for _, test := range []struct {
		same bool
		what string
	}{
		{c.Program == own.Program, "another executable: the program was changed since"},
		{c.Function == own.Function, "another function, " + c.Function},
		{c.First == own.First, "a function whose first schedule shows something else"},
		{c.Whole == own.Whole, "a search with another reduction"},
	} {
		if !test.same {
			return fmt.Errorf("%s is the checkpoint of %s; delete it to begin anew", s.options.checkpoint, test.what)
		}
	}
	s.restore(&c)
	return nil
}

// restore sets the state of the search to that of the checkpoint.
func (s *search) restore(c *checkpoint) {
	s.started, s.resumed, s.first = c.Begun, c.Begun, c.Tree.branch(nil)
	for _, shown := range c.Distinct {
		s.distinct[shown] = true
	}
	s.known = c.Known
	if s.x.tally != nil {
		s.x.tally.counts = c.Counts
		if c.Counts.Sometimes == nil {
			s.x.tally.Sometimes = make(map[string]int)
		}
	}
	s.found.outs = outputs{all: make(map[outputID]output), unchecked: unchecked(c.Unknown)}
	if s.found.outs.unchecked == nil {
		s.found.outs.unchecked = make(unchecked)
	}
	for _, o := range c.Outputs {
		out := output{read: o.Read, unread: o.Unread}
		if o.Blocked != "" {
			out.blocked = errors.New(o.Blocked)
		}
		s.found.outs.all[outputID{o.Number, o.Name, o.Pos}] = out
	}
}

// save writes the search to the checkpoint file of the options, if there is one and it is time or
// now is set. If the process ends during save, the file is either the old or the new one, never a
// mixture.
func (s *search) save(now bool) error {
	if s.options.checkpoint == "" || !now && time.Since(s.saved) < checkpointEvery {
		return nil
	}
	s.saved = time.Now()
	c := s.own
	c.Begun, c.Tree, c.Known, c.Unknown = s.started-s.busy, s.first.save(), s.known, s.found.outs.unchecked
	if s.x.tally != nil {
		c.Counts = s.x.tally.counts
	}
	for shown := range s.distinct {
		c.Distinct = append(c.Distinct, shown)
	}
	for p, out := range s.found.outs.all {
		saved := savedOutput{Number: p.number, Name: p.name, Pos: p.pos, Read: out.read, Unread: out.unread}
		if out.blocked != nil {
			saved.Blocked = out.blocked.Error()
		}
		c.Outputs = append(c.Outputs, saved)
	}
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(c); err != nil {
		return err
	}
	beside := s.options.checkpoint + ".new"
	if err := os.WriteFile(beside, data.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(beside, s.options.checkpoint)
}

// forget removes the checkpoint file of a complete search.
func (s *search) forget() error {
	if s.options.checkpoint == "" {
		return nil
	}
	if err := os.Remove(s.options.checkpoint); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (b *branch) save() savedBranch {
	saved := savedBranch{Index: b.index, Time: b.time, State: b.state, Effect: b.effect, Inner: b.inner}
	if b.state == running {
		saved.State = waiting
	}
	for _, e := range b.events {
		saved.Events = append(saved.Events, savedEvent{e.Effect, e.place, e.last, e.before})
	}
	for _, found := range b.pending {
		var all []savedAddition
		for _, a := range found {
			all = append(all, savedAddition{a.depth, a.heads, a.time})
		}
		saved.Pending = append(saved.Pending, all)
	}
	if p := b.behind; p != nil {
		saved.Behind = &savedPlace{Moves: p.moves, Among: p.among, Next: p.next, Timed: p.timed, Usual: p.usual, Back: p.back}
		for _, a := range p.asleep {
			saved.Behind.Asleep = append(saved.Behind.Asleep, savedAsleep{a.name, *a.effect})
		}
		for _, c := range p.branches {
			saved.Behind.Branches = append(saved.Behind.Branches, c.save())
		}
	}
	return saved
}

// branch returns the saved branch, at the given place.
func (saved *savedBranch) branch(at *place) *branch {
	b := &branch{at: at, index: saved.Index, time: saved.Time, state: saved.State, effect: saved.Effect, inner: saved.Inner}
	for _, e := range saved.Events {
		b.events = append(b.events, event{e.Effect, e.Place, e.Last, e.Before})
	}
	for _, found := range saved.Pending {
		var all []addition
		for _, a := range found {
			all = append(all, addition{a.Depth, a.Heads, a.Time})
		}
		b.pending = append(b.pending, all)
	}
	if p := saved.Behind; p != nil {
		b.behind = &place{from: b, moves: p.Moves, among: p.Among, next: p.Next, timed: p.Timed, usual: p.Usual, back: p.Back}
		if at != nil {
			b.behind.depth = at.depth + 1
		}
		for _, a := range p.Asleep {
			b.behind.asleep = append(b.behind.asleep, asleep{a.Name, &a.Effect})
		}
		for i := range p.Branches {
			b.behind.branches = append(b.behind.branches, p.Branches[i].branch(b.behind))
		}
	}
	return b
}
