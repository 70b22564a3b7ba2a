package durable

import (
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestShapeOfOwner checks that a process does not answer for a partition that it has left. Otherwise a client
// would continue with the operators of that process's program and miss additional ones of the new owner's.
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

// TestQuestionsForVerdicts checks that a question without a complete record gets no result. Otherwise the asking
// process would take the empty answer for the answer to its record.
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
