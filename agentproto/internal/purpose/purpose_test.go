package purpose

import "testing"

func TestOf(t *testing.T) {
	for id, want := range map[string]string{
		ID(Cancel, "x"): Cancel, "close_a_b": Close, "migrate_1": Migrate, "": "", "cancel": "", "cancel_": "", "_cancel": "",
		"msg_x": "", "Cancel_x": "", "cancelled_x": "", " cancel_x": "", "whatever": "",
	} {
		if got := Of(id); got != want {
			t.Errorf("Of(%q) = %q, want %q", id, got, want)
		}
	}
}
