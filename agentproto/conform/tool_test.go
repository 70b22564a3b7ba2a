package conform_test

import (
	"os"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/internal/undertest"
)

// TestOurTools runs every case of tool servers against our own one, in processes of
// its own. Each case is a subtest: -run TestOurTools/O18.
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
	// Other tests run meanwhile; the documented limit is for millrace conform.
	target.Profile.Limits.Ack = 500
	conform.TestTool(t, target)
}
