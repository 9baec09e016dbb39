%% A one-to-many server that answers each message on its stream, and a client.
-module(echo).
-export([server/0, client/0]).
server() ->
  {ok, S} = gen_sctp:open([{ip,{127,0,0,1}},{port,7002},{active,false},binary,{recbuf,65536}]),
  ok = gen_sctp:listen(S, true),
  io:format("listening~n"),
  loop(S, 0).
loop(S, N) ->
  case gen_sctp:recv(S, 15000) of
    {ok, {Ip, Port, Anc, Data}} ->
      io:format("got ~p ~p ~p ~p~n", [Ip, Port, Anc, Data]),
      case {Anc, Data} of
        {[Info|_], B} when is_binary(B) ->
          ok = gen_sctp:send(S, element(10,Info), element(2,Info), <<"echo ", B/binary>>), loop(S, N+1);
        {_, X} when element(1,X) == sctp_assoc_change, element(2,X) == shutdown_comp -> io:format("over ~p~n",[N]);
        _ -> loop(S, N)
      end;
    E -> io:format("end ~p~n", [E])
  end.
client() ->
  {ok, S} = gen_sctp:open([{active,false},binary]),
  {ok, A} = gen_sctp:connect(S, {127,0,0,1}, 7002, [{sctp_initmsg, {sctp_initmsg, 5, undefined, undefined, undefined}}]),
  io:format("up ~p~n", [A]),
  ok = gen_sctp:send(S, A, 2, <<"hello">>),
  R = gen_sctp:recv(S, 5000), io:format("answer ~p~n", [R]),
  ok = gen_sctp:eof(S, A),
  R2 = gen_sctp:recv(S, 5000), io:format("then ~p~n", [R2]),
  gen_sctp:close(S).
