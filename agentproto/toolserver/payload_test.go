package toolserver

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestFinishedCallsOfPayload reads what an instance has sent of calls that are finished. It would catch one that reaches into
// another session, or that has more than there is.
func TestFinishedCallsOfPayload(t *testing.T) {
	of := session{"rt", "thread-1"}
	good := finishedCall{ID: make([]byte, len(digest{})), At: 7, Session: sessionTag("rt", "thread-1")}
	for name, c := range map[string]struct {
		change func(*finishedCall)
		ok     bool
	}{
		"good":            {func(*finishedCall) {}, true},
		"short id":        {func(f *finishedCall) { f.ID = f.ID[1:] }, false},
		"another thread":  {func(f *finishedCall) { f.Session = sessionTag("rt", "thread-2") }, false},
		"another runtime": {func(f *finishedCall) { f.Session = sessionTag("other", "thread-1") }, false},
		"more of a tag":   {func(f *finishedCall) { f.Session = append(f.Session, 0) }, false},
		"all of it":       {func(f *finishedCall) { f.More = make([]byte, wholeEnd-tagEnd) }, true},
		"part of it":      {func(f *finishedCall) { f.More = make([]byte, wholeEnd-tagEnd-1) }, false},
		"a result":        {func(f *finishedCall) { f.Result = make([]byte, maxKeptResult) }, true},
		"a large result":  {func(f *finishedCall) { f.Result = make([]byte, maxKeptResult+1) }, false},
	} {
		f := good
		f.ID, f.Session = bytes.Clone(f.ID), bytes.Clone(f.Session)
		c.change(&f)
		data, err := json.Marshal(payload{Version: payloadVersion, Session: "thread-1", Finished: []finishedCall{f}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readPayload(data, of); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImportedFinishedCalls has calls that say that they were finished before 1970, or will be. It would catch one that is
// remembered for ever, since calls are forgotten in the order of their times.
func TestImportedFinishedCalls(t *testing.T) {
	for at, past := range map[int64]bool{-5: true, 1 << 62: false} {
		s := newMemoryStore()
		id := make([]byte, len(digest{}))
		p := &payload{Finished: []finishedCall{{ID: id, At: at, Session: sessionTag("rt", "thread-1")}}}
		var when []byte
		err := s.update(func(tx tx) error {
			if _, _, err := p.importCalls(tx, ""); err != nil {
				return err
			}
			when = bytes.Clone(tx.get(finishedBucket, id)[:8])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(when, make([]byte, 8)) != past || when[0]&0xc0 != 0 {
			t.Errorf("a call of %d is remembered as of %x", at, when)
		}
	}
}
