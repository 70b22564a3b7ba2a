package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
)

// TestCounts checks the number of conformance cases in documents.
func TestCounts(t *testing.T) {
	of := func(side conform.Side) (n int) {
		for _, c := range conform.Cases() {
			if c.For(side) {
				n++
			}
		}
		return n
	}
	for file, sentence := range map[string]string{
		"doc/conformance.md": fmt.Sprintf("There are %d; `millrace conform cases` lists them.", len(conform.Cases())),
		"doc/control.md":     fmt.Sprintf("tests any runtime of the agent tool protocol: %d cases,", of(conform.Runtime)),
		"CHANGELOG.md":       fmt.Sprintf("try the %d cases of the side of runtimes", of(conform.Runtime)),
		"doc/decisions/0021-the-runner-is-a-stranger.md": fmt.Sprintf("The protocol has %d cases", len(conform.Cases())),
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(text), sentence) {
			t.Errorf("%s does not say %q", file, sentence)
		}
	}
}
