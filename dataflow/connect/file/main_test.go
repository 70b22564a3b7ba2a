package file_test

import (
	"os"
	"testing"

	"github.com/millrace/millrace/internal/overlap"
)

func TestMain(m *testing.M) {
	overlap.Tests()
	os.Exit(m.Run())
}
