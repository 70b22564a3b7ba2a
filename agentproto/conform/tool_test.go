package conform_test

import (
	"os"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/internal/undertest"
)

// TestOurTools runs every tool server case against our own server, in separate processes.
// Each case is a subtest: -run TestOurTools/O18.
func TestOurTools(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target, end, err := undertest.Prepare(t.TempDir(), self, serveArg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	// Other tests run at the same time; the documented limit is for millrace conform.
	target.Profile.Limits.Ack = 500
	conform.TestTool(t, target)
}
