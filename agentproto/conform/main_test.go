package conform_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/undertest"
)

// serveEnv makes the test binary serve tools instead of testing, with the
// configuration that is its last argument, so that there is a process to kill.
const serveEnv = "MILLRACE_UNDER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "1" {
		if err := undertest.Serve(context.Background(), os.Args[len(os.Args)-1], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
