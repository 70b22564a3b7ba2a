package leak

import "testing"

func TestO19_Guard(t *testing.T) {
	var g Guard
	find := func(text string, want bool) {
		t.Helper()
		if g.Finds([]byte(text)) != want {
			t.Errorf("finds(%q) = %v", text, !want)
		}
	}
	find(`"anything"`, false)
	g.Add("client-secret")
	g.Add("short")
	key := Owner{User: "u"}
	g.Replace(key, "access-token-1", `with "quotes"`)
	g.Replace(key, "access-token-1", `with "quotes"`) // the same again
	g.Replace(Owner{User: "v"}, "access-token-1", "")
	find(`{"text":"client-secret"}`, true)
	find(`client-secre`, false)
	find(`short`, false)
	find(`xaccess-token-1x`, true)
	find(`access-token-2`, false)
	find(`{"text":"with \"quotes\""}`, true)
	g.Replace(key, "access-token-2", "refresh-token-2")
	find(`with \"quotes\"`, true) // the one before may still be good
	g.Replace(key, "access-token-3", "refresh-token-3")
	g.rebuild() // until which what is old may be found, too
	find(`with \"quotes\"`, false)
	find(`access-token-1`, true) // of the other user
	find(`refresh-token-2 refresh-token-3`, true)
	g.Replace(Owner{User: "v"}, "a", "")
	g.Replace(Owner{User: "v"}, "b", "")
	g.rebuild()
	find(`access-token-1`, false)
}
