package engine

import (
	"fmt"
	"time"
)

// heartbeatEvery is how often a long run says that it is alive.
const heartbeatEvery = 10 * time.Second

// heartbeat tells every ten seconds that a script runs, until it has exited.
func heartbeat(exited <-chan struct{}, tell func(string)) {
	start := time.Now()
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			tell(fmt.Sprintf("execute_code running (%ds elapsed)", int(time.Since(start).Seconds())))
		case <-exited:
			return
		}
	}
}
