package host

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestW08LargerThanTheLogKeeps sends a result that the endpoint accepts and the log cannot
// store. Retries could never succeed, so it is answered 413 and resolves its call with an
// error that says why.
func TestW08LargerThanTheLogKeeps(t *testing.T) {
	late := lateServer(t)
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, Limits: agentproto.Limits{Bytes: 16 << 20},
		State: &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopNow(t, rt)
	key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "late"})
	if err != nil {
		t.Fatal(err)
	}
	inv := <-late.invocations
	if status := late.post(t, inv.CallbackURL, result(key, strings.Repeat("x", 9<<20))); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a result of 9 MiB: status %d, want 413", status)
	}
	r, err := rt.Await(t.Context(), key)
	if err != nil || !strings.Contains(r.Result.String(), "larger than what the log of this runtime can keep") {
		t.Errorf("the call: %.200v, %v", r, err)
	}
	if status := late.post(t, inv.CallbackURL, result(key, "small")); status != http.StatusOK {
		t.Errorf("a late result: status %d, want 200", status)
	}
	if next, err := rt.Await(t.Context(), key); err != nil || next.Result.String() != r.Result.String() {
		t.Errorf("a late result changed the call: %v, %v", next, err)
	}
}
