package host

import (
	"math"
	"testing"
	"time"
)

// TestEndlessLifetime makes calls that may wait for as long as a duration can say.
func TestEndlessLifetime(t *testing.T) {
	const endless = time.Duration(math.MaxInt64)
	for name, lifetimes := range map[string]struct{ of, call, callback time.Duration }{
		"of the request":  {of: endless},
		"of the runtime":  {call: endless},
		"of the callback": {callback: endless},
		"of all":          {of: endless, call: endless, callback: endless},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tool := w.tool("tool.test")
				w.opts.Timeouts = Timeouts{Call: lifetimes.call, Callback: lifetimes.callback}
				rt := w.start(tool.base)
				key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: "c", Operation: "echo", Lifetime: lifetimes.of})
				if err != nil {
					t.Fatal(err)
				}
				w.pass(time.Minute)
				if status := w.post(tool.callback(), result(key, "there")); status != 200 {
					t.Errorf("the result was answered %d", status)
				}
				if text := w.text(key); text != "there" {
					t.Errorf("the call: %q", text)
				}
			})
		})
	}
}
