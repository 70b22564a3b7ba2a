package durable

import (
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestShapeOfOwner would catch a process that answers for a partition that it has left: a client would go on
// with the operators of its program, and miss those that the program of the new owner has besides.
func TestShapeOfOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), keptProcess, Options{})
		ps := &peers{core: app.core}
		if answer := ps.answer(0, []byte{askShape}); answer[0] != answerEntry || len(answer) < 2 {
			t.Errorf("the owner answers %q", answer)
		}
		pg := app.core.gateway.partitions[0]
		pg.mu.Lock()
		pg.turn(false)
		pg.mu.Unlock()
		if answer := ps.answer(0, []byte{askShape}); string(answer) != string([]byte{answerLater}) {
			t.Errorf("who was the owner answers %q", answer)
		}
		stop(t, app)
	})
}

// TestQuestionsForVerdicts would catch a question without a record, or one that broke off, being answered as if it
// had one: who asks would take the empty answer for that of its record.
func TestQuestionsForVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), keptProcess, Options{})
		ps := &peers{core: app.core}
		for _, question := range [][]byte{{askResult}, {askResult, 0x80}, {askResult, 7}} {
			if answer := ps.answer(0, question); string(answer) != string([]byte{answerLater}) {
				t.Errorf("%q is answered %q", question, answer)
			}
		}
		stop(t, app)
	})
}
