package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestRecorder replays the recorded steps of a runtime, whose calls used real sockets: the calls resolve as before. It
// catches a runtime that does not record all of its programs.
func TestRecorder(t *testing.T) {
	var file bytes.Buffer
	recorder := recordings.NewRecorder(&file)
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{echoServer(t, "echo").URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Recorder: recorder,
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []agentproto.CallKey
	for range 3 {
		key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Await(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if err := rt.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	recording, err := recordings.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	sim.Rerun(t, recording, func(s *sim.Sim) {
		ports := Build(s.Flow(), Parts{})
		s.Start()
		for _, key := range keys {
			r, err := ports.calls.Await(s.Context(), key)
			if err != nil || r.Result.String() != "echo "+key.ID {
				s.Errorf("%v: %+v, %v", key, r, err)
			}
		}
	})
}

// TestRecorderAndState checks that a runtime refuses to have both a State and a Recorder.
func TestRecorderAndState(t *testing.T) {
	sealer, err := NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{State: &durable.Options{}, Sealer: sealer, Recorder: recordings.NewRecorder(&bytes.Buffer{})})
	if err == nil || !strings.Contains(err.Error(), "there is a State and a Recorder") {
		t.Errorf("it says %v", err)
	}
}
