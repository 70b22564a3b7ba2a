package toolserver_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// addDelete adds a tool that asks, unless the session already has a grant.
func addDelete(s *toolserver.Server) {
	toolserver.Add(s, "delete", "Deletes.", func(ctx context.Context, _ none) (string, error) {
		granted, err := toolserver.Granted(ctx, "delete")
		if err != nil || granted {
			return "deleted, as before", err
		}
		switch i, err := toolserver.Choose(ctx, "Delete?", []string{"once", "for this session", "no"}, 2); {
		case err != nil:
			return "", err
		case i == 1:
			return "deleted", toolserver.Grant(ctx, "delete")
		case i == 0:
			return "deleted", nil
		}
		return "not deleted", nil
	})
}

func TestU12_Grants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addDelete)
		n := 0
		asks := func(want bool, change ...with) {
			t.Helper()
			n++
			id := "c" + string(rune('0'+n))
			h.call("delete", id, "{}", change...)
			m := h.next()
			if q, ok := m.Callback.(*agentproto.UserChoice); ok != want {
				t.Errorf("call %d: got %s", n, m.body)
			} else if ok {
				h.post(q.ResponseURL[len("https://tools.example"):], `{"id":"`+id+`","selected":0}`)
				h.nextResult()
			}
		}
		h.call("delete", "first", "{}", thread("child"), ancestors("root"))
		_, path := h.question()
		h.post(path, `{"id":"first","selected":1}`)
		h.nextResult()
		asks(false, thread("child"), ancestors("root"))
		asks(false, thread("grandchild"), ancestors("root", "child"))
		asks(true, thread("root"))
		asks(true, thread("other"), ancestors("root"))
		asks(true, thread("x"), ancestors("elsewhere"))
		asks(true, thread("child"), ancestors("root"), callback("https://other.example/cb"))
		h.end()
		h.begin()
		asks(false, thread("child"), ancestors("root"))
		h.post("/close_thread", `{"thread_id":"root"}`)
		asks(false, thread("child"), ancestors("root"))
		h.post("/close_thread", `{"thread_id":"child"}`)
		asks(true, thread("child"), ancestors("root"))
		h.close()
	})
}
