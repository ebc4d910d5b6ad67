package cli

import (
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

func showEvent(s *screen, e operator.Event) {
	for _, line := range words.Event(e) {
		s.words(line)
	}
}
