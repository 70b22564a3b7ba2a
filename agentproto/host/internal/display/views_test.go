package display

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestViewThreadsAreBounded checks that the number of threads with stored views is
// bounded (threat 34).
func TestViewThreadsAreBounded(t *testing.T) {
	v := newViews(Bounds{Views: 1, Bytes: 100, Threads: 3})
	shown := func() bool { return true }
	for i := range 100 {
		for _, thread := range []string{"kept", fmt.Sprint(i)} {
			u := &agentproto.ViewUpdate{GroupID: thread, ViewType: "v", Content: []byte(`{"a":1}`)}
			if err := v.put(u, shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(v.threads) != 3 || v.order.Len() != 3 || v.threads["kept"] == nil || v.threads["99"] == nil {
		t.Errorf("threads %v are kept, want three and the one that is used", v.threads)
	}
}
