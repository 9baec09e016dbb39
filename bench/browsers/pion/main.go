// The server of `festina web` over data channels of pion, a WebRTC stack in Go: pion ADDRESS PORT. It sends 100 bytes every 50 ms on the
// channel "push", tells the ages of messages on "up", and echoes on others. The page is that of the command.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pion/webrtc/v4"
)

func now() float64 { return float64(time.Now().UnixNano()) / 1e6 }

func serve(channel *webrtc.DataChannel) {
	switch channel.Label() {
	case "push":
		channel.OnOpen(func() {
			go func() {
				for number := 0; channel.ReadyState() == webrtc.DataChannelStateOpen; number++ {
					if channel.SendText(fmt.Sprintf("%-100s", fmt.Sprintf("%d %.3f", number, now()))) != nil {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
		})
	case "up":
		channel.OnMessage(func(message webrtc.DataChannelMessage) {
			words := strings.Fields(string(message.Data))
			if sent, err := strconv.ParseFloat(words[1], 64); err == nil {
				_ = channel.SendText(fmt.Sprintf("%s %.3f", words[0], now()-sent))
			}
		})
	default:
		channel.OnMessage(func(message webrtc.DataChannelMessage) {
			if message.IsString {
				_ = channel.SendText(string(message.Data))
			} else {
				_ = channel.Send(message.Data)
			}
		})
	}
}

func main() {
	address, port := os.Args[1], os.Args[2]
	pages := os.Args[3]
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address)})
	if err != nil {
		log.Fatal(err)
	}
	settings := webrtc.SettingEngine{}
	settings.SetLite(true)
	settings.SetICEUDPMux(webrtc.NewICEUDPMux(nil, socket))
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	api := webrtc.NewAPI(webrtc.WithSettingEngine(settings))
	http.HandleFunc("/offer", func(writer http.ResponseWriter, request *http.Request) {
		offer, _ := io.ReadAll(request.Body)
		peer, err := api.NewPeerConnection(webrtc.Configuration{})
		if err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		peer.OnDataChannel(serve)
		peer.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
			if state == webrtc.PeerConnectionStateFailed {
				_ = peer.Close()
			}
		})
		if err := peer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: string(offer)}); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		gathered := webrtc.GatheringCompletePromise(peer)
		answer, err := peer.CreateAnswer(nil)
		if err == nil {
			err = peer.SetLocalDescription(answer)
		}
		if err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		<-gathered
		fmt.Fprint(writer, peer.LocalDescription().SDP)
	})
	http.Handle("/", http.FileServer(http.Dir(pages)))
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
